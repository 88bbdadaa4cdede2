"""Prompt history of a folder, read from the session logs, newest first."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tillerman.core.terminal_sanitizer import clean

if TYPE_CHECKING:
    from tillerman.harness.harness import Harness

SESSIONS = 50
MOST = 1_000
SECONDS = 2.0  # timeout; a partial history is sufficient


def prompts_of(harness: Harness, folder: Path) -> list[str]:
    """Reads the prompts from the newest sessions of a folder. Blocking; run it in a thread."""
    from tillerman.core.events import TurnStarted

    sessions, until = harness.sessions, time.monotonic() + SECONDS
    found: list[tuple[str, str]] = []
    for row in sessions.catalog.list(cwd=str(folder), limit=SESSIONS):
        found += [
            (entry.at, clean(entry.event.prompt or ""))
            for entry in sessions.log.of_types(row.id, {"turn_started"})
            if isinstance(entry.event, TurnStarted) and _typed(entry.event.prompt)
        ]
        if len(found) >= MOST or time.monotonic() > until:
            break
    found.sort(reverse=True)
    return list(dict.fromkeys(prompt for _, prompt in found))[:MOST]


def _typed(prompt: str | None) -> bool:
    from tillerman.surfaces.tui.prompt.shell_command import OPENING

    return bool(prompt) and not (prompt or "").startswith(OPENING)


class PromptHistory:
    """Loaded on first use; prompts sent in this tab come first."""

    def __init__(self, load: Callable[[], Sequence[str]]) -> None:
        self._load = load
        self._sent: list[str] = []
        self._loaded: Sequence[str] | None = None
        self._loading = asyncio.Lock()

    def read_by(self, load: Callable[[], Sequence[str]]) -> None:
        self._load, self._loaded = load, None

    async def read(self) -> Sequence[str]:
        async with self._loading:
            if self._loaded is None:
                self._loaded = await asyncio.to_thread(self._load)
        return list(dict.fromkeys([*reversed(self._sent), *self._loaded]))

    def add(self, text: str) -> None:
        self._sent.append(text)


class HistoryCursor:
    """Position in the history; the unsent draft is the newest entry."""

    def __init__(self, draft: str, past: Sequence[str]) -> None:
        self._stops = [draft, *(one for one in past if one != draft)]
        self._at = 0

    @property
    def text(self) -> str:
        return self._stops[self._at]

    @property
    def at_draft(self) -> bool:
        return self._at == 0

    def step(self, by: int) -> bool:
        """Moves; False at either end."""
        if not 0 <= self._at + by < len(self._stops):
            return False
        self._at += by
        return True


def matching(past: Sequence[str], query: str) -> list[str]:
    """Prompts that contain all words of the query, in any order."""
    words = query.lower().split()
    return [one for one in past if all(word in one.lower() for word in words)]
