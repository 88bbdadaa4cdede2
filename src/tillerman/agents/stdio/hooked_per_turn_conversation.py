"""A conversation with a process for each turn, whose permission questions come by its hooks."""

from __future__ import annotations

from asyncio import Queue
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from tillerman.agents.stdio.hook_requests import HookRequests
from tillerman.agents.stdio.line_process import LineProcess
from tillerman.agents.stdio.per_turn_conversation import PerTurnConversation
from tillerman.core.agent import AgentInfo, DecodedLine, Host, SessionSpec
from tillerman.core.events import Answer, Event
from tillerman.core.wire import Launch, Wire
from tillerman.hooks.protocol import HookReply
from tillerman.hooks.server import HookAsked

PAUSE = 1.0  # seconds that a question waits for the stream to tell what it is about


class HookDecision(NamedTuple):
    """What a hook is told that asked, or that only told us something."""

    ask: str
    reply: HookReply


Said = Event | HookDecision


class HookTranslator(Protocol):
    """What an agent's hooks ask, in our events; pure, and one for a conversation.

    Each question is ruled on sooner or later, or becomes a request whose answer rules on it. One
    may be kept until the stream tells of the call it is about; `hurry` says that it does not.
    """

    @property
    def waits(self) -> bool: ...  # for the stream
    def begin(self, spec: SessionSpec) -> None: ...  # a turn
    def asked(self, ask: str, event: str, payload: bytes) -> Iterable[Said]: ...
    def hear(self, events: Iterable[Event]) -> Iterable[Said]: ...  # those of the stream
    def hurry(self) -> Iterable[Said]: ...
    def end(self) -> Iterable[Event]: ...  # of the turn; nobody waits any more
    def answer(self, request_id: str, answer: Answer) -> Iterable[Said]: ...
    def gone(self, ask: str) -> Iterable[Said]: ...  # nobody hears a ruling any more


class HookedPerTurnConversation(HookRequests, PerTurnConversation):
    def __init__(
        self,
        info: AgentInfo,
        wire: Wire,
        gate: HookTranslator,
        spec: SessionSpec,
        host: Host,
        grace: float,
    ) -> None:
        super().__init__(info, wire, spec, host, grace)
        self._gate = gate
        self._in_turn = False

    async def answer(self, request_id: str, answer: Answer) -> None:
        self._rule(self._gate.answer(request_id, answer))

    async def close(self) -> None:
        await super().close()
        await self._stop_listening()

    async def _start(self, launch: Launch) -> LineProcess:
        """Its first question may come before anything of it is heard."""
        self._gate.begin(self._spec)
        self._news = Queue()  # what came too late for the last turn is no news in this one
        self._stuck = None
        self._in_turn = True
        try:
            return await super()._start(launch)
        except BaseException:
            self._in_turn = False
            raise

    def _closed(self) -> None:
        self._in_turn = False
        self._dismiss("the turn is over")
        super()._closed()

    def _may_ask(self) -> bool:
        return self._in_turn

    @property
    def _patience(self) -> float | None:
        return PAUSE if self._gate.waits else None

    def _told(self, batch: list[DecodedLine]) -> list[DecodedLine]:
        said = self._rule(self._gate.hear(event for heard in batch for event in heard.events))
        return [*batch, DecodedLine(None, said)] if said else batch

    def _silence(self) -> list[DecodedLine]:
        return [DecodedLine(None, self._rule(self._gate.hurry()))]

    def _last(self) -> list[DecodedLine]:
        return [DecodedLine(None, list(self._gate.end()))]

    def _asked(self, asked: HookAsked) -> DecodedLine:
        events = self._rule(list(self._gate.asked(asked.id, asked.event, asked.payload)))
        return DecodedLine(asked.payload if events else None, events)

    def _withdrawn(self, ask: str) -> DecodedLine:
        return DecodedLine(None, self._rule(self._gate.gone(ask)))

    def _rule(self, said: Iterable[Said]) -> Sequence[Event]:
        events: list[Event] = []
        for one in said:
            if isinstance(one, HookDecision):
                self._reply(one.ask, one.reply)
            else:
                events.append(one)
        return events
