"""Checks in parallel which agents are installed and signed in; caches usable ones briefly."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tillerman.core.errors import NotSignedIn, NotUsable, TillermanError
from tillerman.harness.agent_admin import AgentAdmin, AgentStatus
from tillerman.paths import make_private

FRESH = 60.0  # seconds for which a usable agent is cached


class AgentAvailability:
    """Checks and caches which agents can be used.

    Only success is cached: a user who just signed in is not reported as signed out, and one who
    signed out meanwhile is detected by the first prompt.
    """

    def __init__(self, management: AgentAdmin, cache: Path) -> None:
        self._management = management
        self._file = cache / "usable.json"
        self._asked: dict[str, asyncio.Task[None]] = {}

    def prefetch(self, names: Sequence[str]) -> None:
        """Starts checking all of them in the background."""
        usable = self._usable()
        for name in names:
            task = self._asked.get(name)
            if name not in usable and (task is None or task.done()):
                self._asked[name] = asyncio.create_task(self._ask(name))
                self._asked[name].add_done_callback(
                    lambda task: task.cancelled() or task.exception()
                )

    async def check(self, name: str) -> None:
        """Raises `NotUsable` if the agent cannot be used."""
        if name in self._usable():
            return
        self.prefetch([name])
        await asyncio.shield(self._asked[name])

    async def check_account(self, name: str) -> None:
        """Raises `NotSignedIn` if the agent reports that nobody is signed in.

        Other problems are reported by the first turn, with what the agent says of them.
        """
        if name in self._usable():
            return
        try:
            account = await self._management.account(name)
        except TillermanError:
            return
        if account and not account.signed_in:
            raise NotSignedIn(name, f"{name} is not signed in", hint=account.hint)
        self._remember(name)

    async def _ask(self, name: str) -> None:
        report = await self._management.report(name)
        if report.ready:
            self._remember(name)
            return
        hint = report.install if not report.present else ""
        if report.account and not report.account.signed_in:
            hint = report.account.hint
        kind = NotSignedIn if report.present and not report.problem else NotUsable
        raise kind(name, _problem(report), hint=hint or "run `tillerman doctor`")

    def _usable(self) -> dict[str, float]:
        with suppress(OSError, ValueError, AttributeError, TypeError):
            found = json.loads(self._file.read_bytes())
            now = time.time()
            return {name: at for name, at in found.items() if 0 <= now - at < FRESH}
        return {}

    def _remember(self, name: str) -> None:
        with suppress(OSError):  # on failure it is checked again
            make_private(self._file.parent)
            draft = self._file.with_suffix(f".{name}")
            draft.write_text(json.dumps({**self._usable(), name: time.time()}))
            draft.replace(self._file)


def _problem(report: AgentStatus) -> str:
    if report.problem:
        return f"{report.name} cannot be used: {report.problem}"
    if not report.present:
        return f"{report.name} is not installed"
    return f"{report.name} is not signed in"
