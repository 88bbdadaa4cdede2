"""Conversation with one process per turn, whose permission requests come from hooks."""

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

PAUSE = 1.0  # seconds that a request waits for the stream to report its call


class HookDecision(NamedTuple):
    """The reply to a hook, whether it asked or only reported."""

    ask: str
    reply: HookReply


Said = Event | HookDecision


class HookTranslator(Protocol):
    """Translates an agent's hook calls to events; pure, one per conversation.

    Each hook call is replied to sooner or later, or becomes a request whose answer is the reply. It
    may be held until the stream reports its call; `release_held` ends that wait.
    """

    @property
    def waits(self) -> bool: ...  # for the stream
    def begin(self, spec: SessionSpec) -> None: ...  # starts a turn
    def asked(self, ask: str, event: str, payload: bytes) -> Iterable[Said]: ...
    def receive(self, events: Iterable[Event]) -> Iterable[Said]: ...  # events of the stream
    def release_held(self) -> Iterable[Said]: ...
    def end(self) -> Iterable[Event]: ...  # end of the turn: no hook waits any more
    def answer(self, request_id: str, answer: Answer) -> Iterable[Said]: ...
    def gone(self, ask: str) -> Iterable[Said]: ...  # the hook no longer waits for a reply


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
        """Starts the process; its first hook request may come before its first line."""
        self._gate.begin(self._spec)
        self._updates = Queue()  # requests of the last turn are dropped
        self._stuck = None
        self._in_turn = True
        try:
            return await super()._start(launch)
        except BaseException:
            self._in_turn = False
            raise

    def _closed(self) -> None:
        self._in_turn = False
        self._dismiss("the turn has ended")
        super()._closed()

    def _may_ask(self) -> bool:
        return self._in_turn

    @property
    def _max_wait(self) -> float | None:
        return PAUSE if self._gate.waits else None

    def _handle_lines(self, batch: list[DecodedLine]) -> list[DecodedLine]:
        reported = self._rule(
            self._gate.receive(event for received in batch for event in received.events)
        )
        return [*batch, DecodedLine(None, reported)] if reported else batch

    def _silence(self) -> list[DecodedLine]:
        return [DecodedLine(None, self._rule(self._gate.release_held()))]

    def _last(self) -> list[DecodedLine]:
        return [DecodedLine(None, list(self._gate.end()))]

    def _asked(self, asked: HookAsked) -> DecodedLine:
        events = self._rule(list(self._gate.asked(asked.id, asked.event, asked.payload)))
        return DecodedLine(asked.payload if events else None, events)

    def _withdrawn(self, ask: str) -> DecodedLine:
        return DecodedLine(None, self._rule(self._gate.gone(ask)))

    def _rule(self, decoded: Iterable[Said]) -> Sequence[Event]:
        events: list[Event] = []
        for one in decoded:
            if isinstance(one, HookDecision):
                self._reply(one.ask, one.reply)
            else:
                events.append(one)
        return events
