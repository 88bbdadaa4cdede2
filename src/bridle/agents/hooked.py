"""A conversation with a process for each turn, whose permission questions come by its hooks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from bridle.agents.hearing import MAX_DEPTH, deeper_than, unrecognized
from bridle.agents.per_turn import PerTurnConversation
from bridle.agents.process import LineProcess
from bridle.core.agent import AgentInfo, Exit, Heard, Host, SessionSpec
from bridle.core.events import Answer, Event, TurnEnded
from bridle.core.failure import Failure
from bridle.core.wire import Launch, Wire
from bridle.hooks.messages import HookReply, refusal
from bridle.hooks.server import HookAsked, HookServer

PAUSE = 1.0  # seconds that a question waits for the stream to tell what it is about


class Ruling(NamedTuple):
    """What a hook is told that asked, or that only told us something."""

    ask: str
    reply: HookReply


Said = Event | Ruling


class Gate(Protocol):
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


class HookedConversation(PerTurnConversation):
    """`listen` first: the wire's programs need to know where their hooks ask."""

    def __init__(
        self,
        info: AgentInfo,
        wire: Wire,
        gate: Gate,
        spec: SessionSpec,
        host: Host,
        grace: float,
    ) -> None:
        super().__init__(info, wire, spec, host, grace)
        self._gate = gate
        self._hooks: HookServer | None = None
        self._news: asyncio.Queue[HookAsked | str] = asyncio.Queue()  # who asks, or who is gone
        self._asking: dict[str, HookAsked] = {}
        self._listening = False
        self._stuck: Failure | None = None
        self._ending_it: asyncio.Task[Exit] | None = None

    async def listen(self) -> HookServer:
        self._hooks = await self._host.hooks(self._came, self._overdue)
        return self._hooks

    async def answer(self, request_id: str, answer: Answer) -> None:
        self._rule(self._gate.answer(request_id, answer))

    async def close(self) -> None:
        await super().close()
        if self._hooks:
            await self._hooks.close()

    async def _start(self, launch: Launch) -> LineProcess:
        """Its first question may come before anything of it is heard."""
        self._gate.begin(self._spec)
        self._stuck = None
        self._listening = True
        try:
            return await super()._start(launch)
        except BaseException:
            self._listening = False
            raise

    # -- who asks ----------------------------------------------------------------------------

    def _came(self, asked: HookAsked) -> None:
        if not self._listening:
            asked.reply(refusal("no turn is under way"))
            return
        self._asking[asked.id] = asked
        asked.gone.add_done_callback(partial(self._left, asked.id))
        self._news.put_nowait(asked)

    def _left(self, ask: str, unanswered: asyncio.Future[bool]) -> None:
        self._asking.pop(ask, None)
        if self._listening and not unanswered.cancelled() and unanswered.result():
            self._news.put_nowait(ask)

    def _overdue(self, pid: int | None) -> None:
        """A hook that was stopped: when the agent gives up on it, it may go on as if allowed."""
        if self._process is None or not self._turn_open:
            return
        who = f"process {pid}" if pid else "a process"
        self._stuck = Failure(
            kind="gate_bypassed",
            message=f"a hook of {self._info.name} ({who}) neither waits for its answer nor ends:"
            " the agent was ended before it could go on without one",
            hint=f"something stops processes here; `bridle doctor --gate {self._info.name}`",
        )
        self._ending_it = asyncio.create_task(self._process.kill())

    # -- what is heard -----------------------------------------------------------------------

    async def _hear(self, process: LineProcess) -> AsyncIterator[list[Heard]]:
        """Lines and questions as they come; of two at once the line is first, since a question
        is about a call that a line has told."""
        lines = super()._hear(process)
        line = asyncio.ensure_future(anext(lines))
        news = asyncio.ensure_future(self._news.get())
        try:
            while True:
                pause = PAUSE if self._gate.waits else None
                await asyncio.wait({line, news}, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
                if line.done():
                    try:
                        batch = line.result()
                    except StopAsyncIteration:
                        yield [Heard(None, list(self._gate.end()))]
                        break
                    line = asyncio.ensure_future(anext(lines))
                    told = [event for heard in batch for event in heard.events]
                    more = self._rule(self._gate.hear(told))
                    yield [*batch, Heard(None, more)] if more else batch
                elif news.done():
                    who = news.result()
                    news = asyncio.ensure_future(self._news.get())
                    yield [self._consider(who)]
                else:
                    yield [Heard(None, self._rule(self._gate.hurry()))]
        finally:
            self._listening = False
            line.cancel()
            news.cancel()
            for asked in self._asking.values():
                asked.reply(refusal("the turn is over"))

    def _consider(self, who: HookAsked | str) -> Heard:
        if isinstance(who, str):
            return Heard(None, self._rule(self._gate.gone(who)))
        if deeper_than(MAX_DEPTH, who.payload):
            return self._refuse(who, f"nested deeper than {MAX_DEPTH} levels")
        try:
            said = list(self._gate.asked(who.id, who.event, who.payload))
        except Exception as error:  # a gate's mistake must not open it, nor end the turn
            return self._refuse(who, f"{type(error).__name__} in the gate: {error}")
        events = self._rule(said)
        return Heard(who.payload if events else None, events)

    def _refuse(self, asked: HookAsked, why: str) -> Heard:
        asked.reply(refusal(why))
        return Heard(asked.payload, [unrecognized(asked.payload, why)])

    def _rule(self, said: Iterable[Said]) -> Sequence[Event]:
        events: list[Event] = []
        for one in said:
            if not isinstance(one, Ruling):
                events.append(one)
            elif asked := self._asking.get(one.ask):
                asked.reply(one.reply)
        return events

    def _ending(self, said: TurnEnded | None, exit: Exit, process: LineProcess) -> TurnEnded:
        if self._stuck and not self._cancelling:
            return TurnEnded(reason="failed", failure=self._stuck)
        return super()._ending(said, exit, process)
