"""Chooses the first usable agent of a session; the others become its fallback agents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tillerman.agents.stdio.capability_check import refuse_open_gate
from tillerman.core.cloud import CloudAccess
from tillerman.core.errors import AgentNotInstalled, NotSignedIn, NotUsable, TillermanError
from tillerman.core.events import Notice
from tillerman.core.failure import FailureKind
from tillerman.sessions.fallback.policy import FAILED, UNUSABLE, FallbackPolicy
from tillerman.sessions.run_settings import FallbackRules, LaunchPlan
from tillerman.supervision.linux.which import find_program

if TYPE_CHECKING:
    from tillerman.harness.agent_availability import AgentAvailability
    from tillerman.harness.agent_selection import AgentSelection


class AgentFallback:
    """Launch plans and fallback agents of a session.

    `plan` makes the launch plan for an agent name. Substitutes replace a single agent only if it
    is not installed or not signed in.
    """

    def __init__(
        self,
        who: AgentSelection,
        plan: Callable[[str], LaunchPlan],
        availability: Callable[[], AgentAvailability],
    ) -> None:
        self._names = who.names
        self._substitutes = who.substitutes
        self._chosen = who.chosen
        self._plan = plan
        self._availability = availability

    async def first(self, rules: FallbackRules) -> tuple[LaunchPlan, FallbackPolicy]:
        """Picks the first usable agent; for a single one only checks that its program exists."""
        if len(self._names) > 1:
            return await self._first_of(self._names, rules, FAILED)
        made = self._plan(self._names[0])
        try:
            refuse_missing(made)
        except AgentNotInstalled as error:
            if not self._chosen:
                raise _default_missing(error) from None
            return await self._first_of(self._substitutes, rules, UNUSABLE, [error])
        made = await _placed(made)
        return made, FallbackPolicy(rules, self._substitutes, self._called, UNUSABLE)

    async def _first_of(
        self,
        names: Sequence[str],
        rules: FallbackRules,
        kinds: frozenset[FailureKind],
        passed_over: Sequence[TillermanError] = (),
    ) -> tuple[LaunchPlan, FallbackPolicy]:
        errors = list(passed_over)
        self._availability().prefetch(names)
        for place, name in enumerate(names):
            try:
                made = await self._called(name)
            except TillermanError as error:
                errors.append(error)
                continue
            notices = tuple(_passed_over(error, made) for error in errors)
            run_settings = replace(
                made.run_settings, notices=(*notices, *made.run_settings.notices)
            )
            others = FallbackPolicy(rules, names[place + 1 :], self._called, kinds)
            return made._replace(run_settings=run_settings), others
        raise errors[0] if len(errors) == 1 else _none_usable(errors)

    def remaining(self, names: Sequence[str], rules: FallbackRules) -> FallbackPolicy:
        return FallbackPolicy(rules, names, self._called)

    async def _called(self, name: str) -> LaunchPlan:
        made = self._plan(name)
        await self._availability().check(name)
        refuse_open_gate(made.agent.info, made.spec)
        return await _placed(made)


async def _placed(made: LaunchPlan) -> LaunchPlan:
    """Adds the repository and branch of the folder for an agent that works in a cloud."""
    if not isinstance(made.agent, CloudAccess):
        return made
    from tillerman.harness.cloud import with_place  # lazy: few sessions are in a cloud

    return await with_place(made)


def refuse_missing(made: LaunchPlan) -> None:
    """Raises `AgentNotInstalled`, which is clearer than any later error of a missing agent."""
    info = made.agent.info
    binary = made.spec.native.options.get("binary") or info.binary
    path = made.run_settings.environment.get("PATH")
    if binary and find_program(str(binary), path) is None:
        raise AgentNotInstalled(info.name, binary=str(binary), hint=info.install)


def _default_missing(error: AgentNotInstalled) -> AgentNotInstalled:
    """Nobody asked for this agent, so another one may be the answer."""
    hint = f"choose an agent that is ready (`tillerman agents`), or install it: {error.hint}"
    return AgentNotInstalled(error.agent, binary=error.binary, hint=hint)


def _passed_over(error: TillermanError, made: LaunchPlan) -> Notice:
    text = f"{error.message}: {made.agent.info.name} is used instead"
    return Notice(level="warning", kind="fallback", text=text)


def _none_usable(errors: Sequence[TillermanError]) -> TillermanError:
    """Combines the errors; hint and exit code are those of the preferred agent."""
    first, *rest = errors
    message = "; ".join([first.message, *(error.message for error in rest)])
    signed_out = all(isinstance(error, NotSignedIn) for error in errors)
    kind = NotSignedIn if signed_out else NotUsable
    error = kind(getattr(first, "agent", ""), message, hint=first.hint)
    error.exit_code = first.exit_code
    return error
