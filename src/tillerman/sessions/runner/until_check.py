"""Checks after each turn whether the agent must continue: the user's command, then a callback.

While the command fails, its output is the next prompt; so is the text that the callback returns.
Some agents have a hook for this, which does not fire everywhere; this check applies to all agents.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Literal, NamedTuple

from tillerman.core.events import Notice
from tillerman.sessions.agent.connection import AgentConnection
from tillerman.sessions.run_settings import UntilSettings
from tillerman.sessions.runner.user_command import run

LONGEST = 1800.0  # seconds per check


AfterTurn = Callable[[], Awaitable[str | None]]


class UntilOutcome(NamedTuple):
    notice: Notice | None
    prompt: str | None  # None: no further turn


class UntilCheck:
    """Counts rounds per prompt: `renew` resets them. `after_turn` is the program's callback."""

    def __init__(
        self,
        until: UntilSettings,
        after_turn: AfterTurn | None,
        cwd: Path,
        connection: AgentConnection,
    ) -> None:
        self._until = until
        self._after_turn = after_turn
        self._cwd = cwd
        self._connection = connection
        self._round = 0
        self._running: asyncio.Task[None] | None = None

    def __bool__(self) -> bool:
        """Whether the check is running."""
        return self._running is not None

    @property
    def wanted(self) -> bool:
        return bool(self._until.command) or self._after_turn is not None

    def renew(self) -> None:
        self._round = 0

    def begun(self, task: asyncio.Task[None]) -> None:
        """The task runs the check, and what follows from it."""
        self._running = task

    def stop(self) -> bool:
        """Cancels the check; returns whether it was running."""
        running, self._running = self._running, None
        return running is not None and running.cancel()

    async def run(self) -> UntilOutcome:
        try:
            outcome = await self._run()
        except Exception:
            self._running = None
            raise
        self._running = None
        return outcome

    async def _run(self) -> UntilOutcome:
        outcome = UntilOutcome(None, None)
        if self._until.command:
            outcome = await self._run_command()
        if outcome.prompt is None and self._after_turn:
            try:
                return outcome._replace(prompt=await self._after_turn())
            except Exception as error:  # the program's own code may raise anything
                reason = str(error) or type(error).__name__
                return _over("error", f"after_turn failed: {reason}")
        return outcome

    async def _run_command(self) -> UntilOutcome:
        command, rounds = self._until.command, self._until.rounds
        try:
            ran = await run(self._connection.host, command, cwd=self._cwd, limit=LONGEST)
        except TimeoutError:
            return _over("warning", f"`{command}` exceeded {LONGEST:g} s and was terminated")
        except OSError as error:
            return _over("error", f"`{command}` could not be run: {error}")
        if ran.exit.clean:
            return _over("info", f"`{command}` succeeded")
        how = ran.how
        if self._round >= rounds:
            return _over("warning", f"`{command}` still fails ({how}) after {rounds} more turns")
        self._round += 1
        text = f"`{command}` failed ({how}): the agent tries again, {self._round} of {rounds}"
        prompt = f"`{command}` failed ({how}). Continue until it succeeds."
        if ran.said:
            prompt += f" Its output:\n\n{ran.said}"
        return UntilOutcome(Notice(level="info", kind="session", text=text), prompt)


def _over(level: Literal["info", "warning", "error"], text: str) -> UntilOutcome:
    return UntilOutcome(Notice(level=level, kind="session", text=text), None)
