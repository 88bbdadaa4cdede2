"""Continues a turn whose agent stopped: retries, switches to the next agent, or restarts it.

The next agent and a restarted one get a summary of the history that was lost.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Literal

from msgspec.structs import replace

from tillerman.core.agent import Conversation, Prompt
from tillerman.core.errors import AgentError, AgentNotInstalled, PromptWithdrawn
from tillerman.core.events import Notice, UserMessage
from tillerman.core.failure import Failure, FailureKind
from tillerman.core.session_options import with_options
from tillerman.sessions.agent.connection import AgentConnection
from tillerman.sessions.fallback.policy import (
    Candidate,
    FallbackPolicy,
    Replay,
    RetryAfter,
    SwitchAgent,
)
from tillerman.sessions.fallback.turn_snapshot import TurnSnapshot
from tillerman.sessions.limits.usage_meter import UsageMeter
from tillerman.sessions.log.event_writer import EventWriter
from tillerman.sessions.output_schema_check import Repair
from tillerman.sessions.run_settings import LaunchPlan, RunSettings

GO_ON = Prompt("Continue where you stopped: the rate limit is over.")
LEAST_COST = 0.01  # US dollars; an agent with a zero limit would not start


@dataclass
class TurnProgress:
    """What a turn has produced so far."""

    visible: bool = False  # output or actions of the current agent
    begun: bool = False  # or of an earlier agent of the turn


class Handover:
    def __init__(
        self,
        connection: AgentConnection,
        policy: FallbackPolicy,
        snapshot: TurnSnapshot,
        meter: UsageMeter,
        log: EventWriter,
        settings: RunSettings,
    ) -> None:
        self._connection = connection
        self._policy = policy
        self._snapshot = snapshot
        self._meter = meter
        self._log = log
        self._unreported = list(settings.notices)
        self._relays = settings.relays
        self._connecting: asyncio.Task[Conversation] | None = None

    def pending_notices(self) -> list[Notice]:
        """Returns the pending notices, once there is a turn to report them in."""
        summary, self._unreported = self._unreported, []
        return summary

    async def connect(self) -> Conversation:
        """Connects to the agent, or to the first fallback agent that can be started."""
        self._connecting = connecting = asyncio.create_task(self._first())
        try:
            await asyncio.wait([connecting])
        finally:
            connecting.cancel()
            self._connecting = None
        if connecting.cancelled():
            raise PromptWithdrawn("cancelled before the agent had started", hint="prompt again")
        return connecting.result()

    def cancel(self) -> None:
        """Cancels the wait for an agent; it continues to start, for the next prompt."""
        if self._connecting:
            self._connecting.cancel()

    async def _first(self) -> Conversation:
        while True:
            try:
                return await self._call()
            except AgentError as error:
                if not self._policy.covers(as_failure(error)):
                    raise
                found = await self._policy.next()
                if found.plan is None:
                    raise
                self._unreported += self._takes_over(error.message, found)
                await self.pass_to(found.plan)

    async def _call(self) -> Conversation:
        """Restarts an agent that died since its last turn, but not one that dies immediately."""
        for _ in range(2):
            conversation, _ = await asyncio.gather(
                self._connection.open(), self._snapshot.capture()
            )
            if conversation is self._connection.conversation:
                break
        return conversation

    async def pass_to(self, plan: LaunchPlan) -> None:
        """Switches to the next agent.

        The user's mode and the spent cost apply to it too, and it gets the session's MCP servers.
        """
        plan = plan.offering(self._relays)
        spec = replace(plan.spec, mode=self._connection.spec.mode)
        if spec.limits.cost is not None:
            spec = with_options(spec, max_cost=max(LEAST_COST, spec.limits.cost - self._meter.cost))
        await self._connection.pass_to(plan._replace(spec=spec))
        self._unreported += plan.run_settings.notices

    async def with_history(self, prompt: Prompt) -> tuple[Prompt, UserMessage | None]:
        """Returns the prompt, with a summary of the history if the agent has none."""
        if not self._connection.has_no_history or not (past := await self._log.summary_so_far()):
            return prompt, None
        summary = past.earlier()
        return replace(prompt, text=f"{summary}\n{prompt.text}"), UserMessage(
            text=summary, how="handoff"
        )

    async def next_prompt(
        self,
        way: RetryAfter | SwitchAgent | Repair | Replay,
        why: str,
        raw: bytes | None,
        *,
        asked: Prompt,
        progress: TurnProgress,
        first: bool,
    ) -> Prompt | None:
        """Returns the prompt for continuing after an agent stopped; None if no agent is left.

        `asked` is the prompt of the turn, `first` that there was no earlier turn.
        """
        match way:
            case RetryAfter(seconds):
                self._log.write_own(self._waits(seconds), raw)
                await asyncio.sleep(seconds)
                return GO_ON if progress.begun else asked
            case Repair(text):
                self._log.write_own(_warning("retry", f"{why}: retrying once"), raw)
                self._log.write_own(UserMessage(text=text, how="repair"))
                return Prompt(text)
            case Replay():
                self._log.write_own(self._replays(why), raw)
                await self._connection.forget()
                prompt, summary = await self.with_history(asked)
                if summary:
                    self._log.write_own(summary)
                return prompt
            case SwitchAgent():
                found = await self._policy.next()
                self._log.write_all_own(self._takes_over(why, found), raw)
                if found.plan is None:
                    return None
                await self.pass_to(found.plan)
                return asked if first and not progress.begun else await self._unfinished(asked, why)

    async def _unfinished(self, asked: Prompt, why: str) -> Prompt:
        files = await self._snapshot.changes_so_far()
        summary = (await self._log.summary_so_far()).unfinished(why, files)
        self._log.write_own(UserMessage(text=summary, how="handoff"))
        return replace(asked, text=summary)

    # -- notices ---------------------------------------------------------------------------------

    def _takes_over(self, why: str, found: Candidate) -> list[Notice]:
        """Notices of the switch, or of why no agent is left."""
        passed_over = "skipped" if found.plan else "no agent left to continue"
        notices = [_warning("fallback", f"{passed_over}: {one}") for one in found.passed_over]
        if found.plan:
            names = self._connection.agent.info.name, found.plan.agent.info.name
            text = f"{names[0]} cannot continue ({why}): {names[1]} takes over"
            notices.insert(0, _warning("fallback", text))
        return notices

    def _replays(self, why: str) -> Notice:
        title = self._connection.agent.info.title
        text = f"{title} cannot resume its conversation ({why}): it starts a new one with a "
        return _warning("handoff", text + "summary of the session so far")

    def _waits(self, seconds: float) -> Notice:
        name = self._connection.agent.info.name
        return _warning("retry", f"{name} is rate limited: retrying in {seconds:g} s")


def as_failure(error: AgentError) -> Failure:
    kind: FailureKind = "agent_failed"
    if isinstance(error, AgentNotInstalled):
        kind = "not_installed"
    return Failure(kind=kind, message=error.message, hint=error.hint)


def _warning(kind: Literal["fallback", "retry", "handoff"], text: str) -> Notice:
    return Notice(level="warning", kind=kind, text=text)
