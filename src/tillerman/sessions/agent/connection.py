"""The connection to an agent: opens it on demand, reopens it, and switches to another agent."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable, Sequence

from msgspec.structs import replace

from tillerman.agents.stdio.capability_check import refuse_open_gate
from tillerman.core.agent import Agent, Conversation, DecodedLine, Host, SessionSpec
from tillerman.core.errors import AgentError, GateNotEnforced
from tillerman.core.events import TurnEnded
from tillerman.core.failure import Failure
from tillerman.core.session_options import with_options
from tillerman.sessions.run_settings import LaunchPlan, RunSettings

_LONG = "a system prompt or MCP config exceeds the maximum command line length"


class AgentConnection:
    """Connects a session to its agent.

    `opened` is called before the first event of an agent, `received` receives all its output, and
    `lost` receives the end of a turn that was still open.
    """

    def __init__(
        self,
        plan: LaunchPlan,
        native_id: str | None,
        host: Callable[[RunSettings], Host],
        *,
        received: Callable[[Sequence[DecodedLine]], Awaitable[None]],
        lost: Callable[[TurnEnded], Awaitable[None]],
        opened: Callable[[Agent, SessionSpec], None],
    ) -> None:
        self.agent: Agent = plan.agent
        self._preset = plan.run_settings.approve
        self.spec: SessionSpec = with_options(plan.spec, approve=self._preset)
        self.model = plan.spec.model  # or as reported by the agent
        self.native_id = native_id
        self.conversation: Conversation | None = None
        self.has_no_history = native_id is None  # the agent has no history of the session
        self._make_host = host
        self._host = host(plan.run_settings)
        self._received = received
        self._lost = lost
        self._opened = opened
        self._opening: asyncio.Task[Conversation] | None = None
        self._listening: asyncio.Task[None] | None = None

    @property
    def host(self) -> Host:
        return self._host

    @property
    def begun(self) -> bool:
        """Whether the conversation is open or being opened."""
        return self._opening is not None

    def approve(self, preset: str) -> None:
        """Sets the preset for this agent and its successors in the session."""
        self._preset = preset
        self.spec = with_options(self.spec, approve=preset)

    def warm(self) -> None:
        """Starts the agent before the first prompt; errors are reported by the prompt."""
        self._opening = asyncio.create_task(self._connect())
        self._opening.add_done_callback(lambda task: task.cancelled() or task.exception())

    async def open(self) -> Conversation:
        if self._opening is None:
            self._opening = asyncio.create_task(self._connect())
        try:
            return await asyncio.shield(self._opening)
        except Exception:
            self._opening = None
            raise

    async def pass_to(self, plan: LaunchPlan) -> None:
        """Switches to another agent, after all output of the previous one is processed."""
        await self.forget()
        self.agent, self.spec = plan.agent, self._approved(plan)
        self.model = plan.spec.model
        self._host = self._make_host(plan.run_settings)

    async def forget(self) -> None:
        """Ends the conversation; the next one starts without history."""
        conversation, self.conversation, self._opening = self.conversation, None, None
        if conversation:
            await asyncio.shield(conversation.close())  # must finish even if the caller is canceled
        if self._listening:
            await asyncio.wait([self._listening])
        self.native_id, self.has_no_history = None, True

    async def close(self) -> None:
        if self._opening:
            await asyncio.wait([self._opening])
        if self.conversation:
            await self.conversation.close()
        if self._listening:
            await self._listening

    def _approved(self, plan: LaunchPlan) -> SessionSpec:
        return with_options(plan.spec, approve=self._preset)

    async def _connect(self) -> Conversation:
        spec, can = self.spec, self.agent.info.can
        if self.native_id and "resume" in can and (not spec.fork or "fork" in can):
            spec = replace(spec, resume=self.native_id)
        else:
            spec, self.has_no_history = replace(spec, fork=False), True
        refuse_open_gate(self.agent.info, spec)
        try:
            self.conversation = await self.agent.open(spec, self._host)
        except OSError as error:
            raise AgentError(
                self.agent.info.name,
                f"{self.agent.info.name} cannot be started: {error.strerror or error}",
                hint=_LONG if error.errno == errno.E2BIG else "run `tillerman doctor`",
            ) from error
        try:
            refuse_open_gate(self.agent.info, spec, self.conversation.asks)
        except GateNotEnforced:
            conversation, self.conversation = self.conversation, None
            await asyncio.shield(conversation.close())
            raise
        self._opened(self.agent, spec)
        self._listening = asyncio.create_task(self._listen(self.conversation))
        return self.conversation

    async def _listen(self, conversation: Conversation) -> None:
        try:
            async for batch in conversation.batches():
                await self._received(batch)
                del batch
        except Exception as error:
            await conversation.close()
            await self._end(conversation, f"{type(error).__name__}: {error}")
            raise
        await self._end(conversation, "the agent exited without a result")

    async def _end(self, conversation: Conversation, message: str) -> None:
        if self.conversation is conversation:
            self.conversation = self._opening = None
        failure = Failure(kind="stream_broken", message=message)
        await self._lost(TurnEnded(reason="failed", failure=failure))
