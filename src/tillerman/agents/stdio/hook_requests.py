"""Conversation base that receives permission requests from hooks; each is answered or refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial

from tillerman.agents.stdio.conversation import BaseConversation
from tillerman.agents.stdio.line_decoder import MAX_DEPTH, deeper_than, unrecognized
from tillerman.agents.stdio.line_process import LineProcess
from tillerman.core.agent import AgentInfo, DecodedLine, Exit, Host, SessionSpec
from tillerman.core.events import TurnEnded
from tillerman.core.failure import Failure
from tillerman.core.wire import Wire
from tillerman.hooks.protocol import HookReply, refusal
from tillerman.hooks.server import HookAsked, HookServer, ProvidesHookServer


class HookRequests(BaseConversation):
    """For conversations of both lifetimes. Call `listen` first: the program needs the address."""

    def __init__(
        self, info: AgentInfo, wire: Wire, spec: SessionSpec, host: Host, grace: float
    ) -> None:
        super().__init__(info, wire, spec, host, grace)
        self._hooks: HookServer | None = None
        self._updates: asyncio.Queue[HookAsked | str] = (
            asyncio.Queue()
        )  # requests, ids of closed ones
        self._asking: dict[str, HookAsked] = {}
        self._stuck: Failure | None = None
        self._ending_it: asyncio.Task[Exit] | None = None

    async def listen(self) -> HookServer:
        assert isinstance(self._host, ProvidesHookServer)
        self._hooks = await self._host.hooks(self._came, self._overdue)
        return self._hooks

    async def _stop_listening(self) -> None:
        if self._hooks:
            await self._hooks.close()

    # -- overridden by subclasses -------------------------------------------------------------

    def _may_ask(self) -> bool:
        raise NotImplementedError

    def _asked(self, asked: HookAsked) -> DecodedLine:
        raise NotImplementedError

    def _withdrawn(self, ask: str) -> DecodedLine:
        raise NotImplementedError

    def _handle_lines(self, batch: list[DecodedLine]) -> list[DecodedLine]:
        """Handles decoded lines, including their effect on open hook requests."""
        return batch

    def _silence(self) -> list[DecodedLine]:
        """Called when neither a line nor a request arrived within `_max_wait`."""
        return []

    def _last(self) -> list[DecodedLine]:
        """Called at the end of the stream."""
        return []

    @property
    def _max_wait(self) -> float | None:
        return None

    # -- requests ----------------------------------------------------------------------------

    def _came(self, asked: HookAsked) -> None:
        if not self._may_ask():
            asked.reply(refusal("no turn is running"))
            return
        self._asking[asked.id] = asked
        asked.gone.add_done_callback(partial(self._left, asked.id))
        self._updates.put_nowait(asked)

    def _left(self, ask: str, unanswered: asyncio.Future[bool]) -> None:
        self._asking.pop(ask, None)
        if not unanswered.cancelled() and unanswered.result():
            self._updates.put_nowait(ask)

    def _reply(self, ask: str, reply: HookReply) -> None:
        if asked := self._asking.get(ask):
            asked.reply(reply)

    def _dismiss(self, why: str) -> None:
        for asked in list(self._asking.values()):
            asked.reply(refusal(why))

    def _overdue(self, pid: int | None) -> None:
        """Ends the agent if a hook is stuck: at its own timeout the agent may allow the call."""
        if self._process is None or not self._turn_open:
            return
        who = f"process {pid}" if pid else "a process"
        self._stuck = Failure(
            kind="gate_bypassed",
            message=f"a hook of {self._info.name} ({who}) neither waits for its answer nor exits:"
            " the agent was terminated before it could continue without one",
            hint=f"check what stops processes; run `tillerman doctor --gate {self._info.name}`",
        )
        self._ending_it = asyncio.create_task(self._process.kill())

    # -- receiving ---------------------------------------------------------------------------

    async def _receive(self, process: LineProcess) -> AsyncIterator[list[DecodedLine]]:
        """Yields lines and hook requests as they arrive.

        Of two at once the line comes first, since a request is about a call that a line reported.
        """
        lines = super()._receive(process)
        line = asyncio.ensure_future(anext(lines))
        update = asyncio.ensure_future(self._updates.get())
        try:
            while True:
                await asyncio.wait(
                    {line, update}, timeout=self._max_wait, return_when=asyncio.FIRST_COMPLETED
                )
                if line.done():
                    try:
                        batch = line.result()
                    except StopAsyncIteration:
                        yield self._last()
                        break
                    line = asyncio.ensure_future(anext(lines))
                    yield self._handle_lines(batch)
                    del batch
                elif update.done():
                    who = update.result()
                    update = asyncio.ensure_future(self._updates.get())
                    yield [self._consider(who)]
                else:
                    yield self._silence()
        finally:
            line.cancel()
            update.cancel()

    def _consider(self, who: HookAsked | str) -> DecodedLine:
        if isinstance(who, str):
            return self._withdrawn(who)
        if deeper_than(MAX_DEPTH, who.payload):
            return self._refuse(who, f"nested deeper than {MAX_DEPTH} levels")
        try:
            return self._asked(who)
        except Exception as error:  # a gate error must neither allow the call nor end the turn
            return self._refuse(who, f"{type(error).__name__} in the gate: {error}")

    def _refuse(self, asked: HookAsked, why: str) -> DecodedLine:
        asked.reply(refusal(why))
        return DecodedLine(asked.payload, [unrecognized(asked.payload, why)])

    def _ending(self, reported: TurnEnded | None, exit: Exit, process: LineProcess) -> TurnEnded:
        if self._stuck and not self._cancelling:
            return TurnEnded(reason="failed", failure=self._stuck)
        return super()._ending(reported, exit, process)
