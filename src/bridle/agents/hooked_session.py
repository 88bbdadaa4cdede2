"""A conversation with one process for all turns, whose hook asks before every call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Protocol

from bridle.agents.conversation import StdioConversation
from bridle.agents.hearing import MAX_DEPTH, deeper_than, unrecognized
from bridle.agents.process import LineProcess
from bridle.core.agent import AgentInfo, Exit, Heard, Host, SessionSpec
from bridle.core.events import Answer, Event, PermissionRequested, TurnEnded
from bridle.core.failure import Failure
from bridle.core.wire import Wire
from bridle.hooks.messages import HookReply, refusal
from bridle.hooks.server import HookAsked, HookServer, LendsHooks


class HookedWire(Wire, Protocol):
    def hooked(self, ask: str, payload: bytes) -> PermissionRequested | HookReply: ...
    def rule(self, ask: str, answer: Answer) -> HookReply | None: ...  # None: no hook asked this
    def gone(self, ask: str) -> list[Event]: ...  # nobody waits any more for what was asked


class HookedConversation(StdioConversation):
    """`listen` first: the program must know where its hook asks. `restless`: what it began in a
    turn may ask after it."""

    def __init__(
        self,
        info: AgentInfo,
        wire: HookedWire,
        spec: SessionSpec,
        host: Host,
        grace: float,
        *,
        restless: bool = False,
    ) -> None:
        super().__init__(info, wire, spec, host, grace)
        self._told_by = wire
        self._restless = restless
        self._hooks: HookServer | None = None
        self._news: asyncio.Queue[HookAsked | str] = asyncio.Queue()  # who asks, or who is gone
        self._asking: dict[str, HookAsked] = {}
        self._stuck: Failure | None = None
        self._ending_it: asyncio.Task[Exit] | None = None

    async def listen(self) -> HookServer:
        assert isinstance(self._host, LendsHooks)
        self._hooks = await self._host.hooks(self._came, self._overdue)
        return self._hooks

    async def answer(self, request_id: str, answer: Answer) -> None:
        ruling = self._told_by.rule(request_id, answer)
        if ruling is None:
            await super().answer(request_id, answer)
        else:
            self._reply(request_id, ruling)

    async def cancel(self) -> None:
        self._dismiss("the turn was cancelled")
        await super().cancel()

    async def close(self) -> None:
        self._dismiss("the session is over")
        await super().close()
        if self._hooks:
            await self._hooks.close()

    # -- who asks ----------------------------------------------------------------------------

    def _came(self, asked: HookAsked) -> None:
        if self._cancelling or not (self._turn_open or self._restless):
            asked.reply(refusal("no turn is under way"))
            return
        self._asking[asked.id] = asked
        asked.gone.add_done_callback(partial(self._left, asked.id))
        self._news.put_nowait(asked)

    def _left(self, ask: str, unanswered: asyncio.Future[bool]) -> None:
        self._asking.pop(ask, None)
        if not unanswered.cancelled() and unanswered.result():
            self._news.put_nowait(ask)

    def _overdue(self, pid: int | None) -> None:
        """A hook that was stopped: when the agent gives up on it, the call runs."""
        if self._process is None or not self._turn_open:
            return
        self._stuck = Failure(
            kind="gate_bypassed",
            message=f"a hook of {self._info.name} ({f'process {pid}' if pid else 'a process'})"
            " neither waits for its answer nor ends: the agent was ended before it could go on",
            hint=f"something stops processes here; `bridle doctor --gate {self._info.name}`",
        )
        self._ending_it = asyncio.create_task(self._process.kill())

    def _reply(self, ask: str, reply: HookReply) -> None:
        if asked := self._asking.get(ask):
            asked.reply(reply)

    def _dismiss(self, why: str) -> None:
        for asked in list(self._asking.values()):
            asked.reply(refusal(why))

    # -- what is heard -----------------------------------------------------------------------

    async def _hear(self, process: LineProcess) -> AsyncIterator[list[Heard]]:
        """Lines and questions as they come; of two at once the line is first, since a question
        is about a call that a line has told."""
        lines = super()._hear(process)
        line = asyncio.ensure_future(anext(lines))
        news = asyncio.ensure_future(self._news.get())
        try:
            while True:
                await asyncio.wait({line, news}, return_when=asyncio.FIRST_COMPLETED)
                if line.done():
                    try:
                        batch = line.result()
                    except StopAsyncIteration:
                        break
                    line = asyncio.ensure_future(anext(lines))
                    yield batch
                    del batch
                else:
                    who = news.result()
                    news = asyncio.ensure_future(self._news.get())
                    yield [self._consider(who)]
        finally:
            line.cancel()
            news.cancel()

    def _consider(self, who: HookAsked | str) -> Heard:
        if isinstance(who, str):
            return Heard(None, self._told_by.gone(who))
        if deeper_than(MAX_DEPTH, who.payload):
            return self._refuse(who, f"nested deeper than {MAX_DEPTH} levels")
        events: Sequence[Event] = ()
        match self._told_by.hooked(who.id, who.payload):
            case HookReply(exit=0) as reply:  # it is not for anybody to decide
                who.reply(reply)
                return Heard(None, ())
            case HookReply() as reply:
                return self._refuse(who, reply.stderr.decode("utf-8", "replace").strip())
            case event:
                events = [event]
        return Heard(who.payload, events)

    def _refuse(self, asked: HookAsked, why: str) -> Heard:
        asked.reply(refusal(why))
        return Heard(asked.payload, [unrecognized(asked.payload, why)])

    def _ending(self, said: TurnEnded | None, exit: Exit, process: LineProcess) -> TurnEnded:
        if self._stuck and not self._cancelling:
            return TurnEnded(reason="failed", failure=self._stuck)
        return super()._ending(said, exit, process)
