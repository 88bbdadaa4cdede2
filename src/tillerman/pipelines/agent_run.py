"""Runs the agent of a step in a session; one that was interrupted goes on in its session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tillerman.core.errors import TillermanError
from tillerman.core.events import MessageChunk, ToolStarted
from tillerman.core.terminal_sanitizer import clean
from tillerman.pipelines.run_state import StepResult
from tillerman.pipelines.serializer import plain
from tillerman.pipelines.steps import AgentStep

if TYPE_CHECKING:
    from tillerman.core.transcript.turn_result import Result
    from tillerman.harness.harness import Harness
    from tillerman.sessions.session import Session

MOST_TEXT = 64_000  # characters of an agent's last message that later steps can see
_LIMITS = frozenset({"timed_out", "turn_limit", "cost_limit", "token_limit"})
_GO_ON = (
    "You were interrupted before you had finished: your process ended. The files are as you left "
    "them. Check what is done, and finish the task:\n\n"
)

LineSeen = Callable[[str], None]
SessionOpened = Callable[["Session"], Awaitable[None]]


class AgentRun:
    def __init__(
        self,
        harness: Harness,
        step: AgentStep,
        *,
        folder: Path,
        project: Path,
        title: str,
        limit: float | None,
        most_cost: float | None,
        on_line: LineSeen,
        on_session: SessionOpened,
    ) -> None:
        self._harness = harness
        self._step = step
        self._folder = folder
        self._project = project
        self._title = title
        self._limit = limit
        costs = [one for one in (step.limits.cost, most_cost) if one is not None]
        self._most_cost = min(costs, default=None)
        self._on_line = on_line
        self._on_session = on_session

    async def start(self) -> StepResult:
        """Runs the prompt in a new session."""
        try:
            session = await self._harness.start(
                ",".join(self._step.agents),
                title=self._title,
                project=self._project,
                cwd=self._folder,
                **self._options(),
            )
        except TillermanError as error:
            return _refused(error)
        async with session:
            await self._on_session(session)
            return await self._prompt(session, self._step.prompt)

    async def resume(self, id: str) -> StepResult:
        """Goes on in the session of an interrupted attempt.

        A turn that had ended counts. Raises `TillermanError` if the session cannot be resumed.
        """
        session = await self._harness.resume(id, project=self._project, **self._options())
        async with session:
            await self._on_session(session)
            turns = session.transcript().turns
            if not turns:
                return await self._prompt(session, self._step.prompt)
            last = session.result()
            if last.status == "completed":
                return _result(last)
            return await self._prompt(session, _GO_ON + self._step.prompt)

    async def _prompt(self, session: Session, text: str) -> StepResult:
        line = ""
        try:
            async for entry in session.run(text):
                match entry.event:
                    case MessageChunk(text=chunk, parent=None):
                        line = (line + chunk)[-4000:]
                        self._show(line)
                    case ToolStarted(title=title):
                        line = ""
                        self._show(title)
                    case _:
                        pass
        except TillermanError as error:
            return _refused(error)
        return _result(session.result())

    def _show(self, text: str) -> None:
        if lines := text.strip().splitlines():
            self._on_line(clean(lines[-1]))

    def _options(self) -> dict[str, Any]:
        step = self._step
        options = {
            "mode": step.mode,
            "model": step.model,
            "approve": step.approve,
            "workspace_tools": step.tools or None,
            "max_turns": step.limits.turns,
            "max_cost": self._most_cost,
            "timeout": self._limit,
        }
        return {"unattended": True} | {k: v for k, v in options.items() if v is not None}


def _result(result: Result) -> StepResult:
    failure = result.failure
    ok = result.status == "completed"
    return StepResult(
        ok=ok,
        text=plain(result.text)[:MOST_TEXT],
        error="" if ok else plain(failure.message if failure else f"the turn is {result.status}"),
        agent=result.agent or "",
        session=result.session,
        cost=result.cost_usd,
        limit=bool(failure and failure.kind in _LIMITS),
    )


def _refused(error: TillermanError) -> StepResult:
    hint = f" ({error.hint})" if error.hint else ""
    return StepResult(ok=False, error=plain(error.message + hint))
