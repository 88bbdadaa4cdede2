"""A harness with private state and the mock agent, and checks for leaks of a session."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import tillerman
from tillerman.core.events import (
    Entry,
    Notice,
    PermissionRequested,
    QuestionAsked,
    RequestAnswered,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)
from tillerman.paths import find_paths
from tillerman.sessions.session import read_all

E = TypeVar("E")

WRITE = {"write": "a.txt", "text": "1\n"}
SAY = {"say": "Done."}
QUESTION = {"question": [{"text": "Which?", "header": "Q", "choices": [{"label": "red"}]}]}


def script(*steps: dict[str, Any]) -> str:
    return json.dumps(steps)


@asynccontextmanager
async def harness_in(folder: Path, config: str = "") -> AsyncIterator[tillerman.Harness]:
    project = folder / "project"
    project.mkdir(exist_ok=True)
    paths = find_paths({"TILLERMAN_HOME": str(folder / "home")})
    if config:
        paths.config_file.parent.mkdir(parents=True, exist_ok=True)
        paths.config_file.write_text(config)
    async with tillerman.open(paths=paths, cwd=project) as harness:
        yield harness


def entries(session: tillerman.Session) -> list[Entry]:
    return list(read_all(session._log, session.id))


def of(log: Iterable[Entry], kind: type[E]) -> list[E]:
    return [entry.event for entry in log if isinstance(entry.event, kind)]


def errors(session: tillerman.Session) -> list[str]:
    return [one.text for one in of(entries(session), Notice) if one.level == "error"]


def answers(session: tillerman.Session) -> list[tuple[str, str, str | None]]:
    """Each answered request: the option, who answered, and the surface."""
    given = of(entries(session), RequestAnswered)
    return [(one.answer.option, one.by, one.surface) for one in given]


def check_log(log: list[Entry]) -> None:
    """Invariants of every session: turns, requests and calls each end once."""
    assert [entry.seq for entry in log] == list(range(1, len(log) + 1))
    started = [entry.turn for entry in log if isinstance(entry.event, TurnStarted)]
    ended = [entry.turn for entry in log if isinstance(entry.event, TurnEnded)]
    assert started == ended
    opened = [one.request_id for one in of(log, PermissionRequested) + of(log, QuestionAsked)]
    resolved = [one.request_id for one in of(log, RequestAnswered)]
    assert sorted(opened) == sorted(resolved)
    begun = [one.call_id for one in of(log, ToolStarted)]
    over = [one.call_id for one in of(log, ToolFinished)]
    assert len(set(over)) == len(over)
    assert set(over) <= set(begun)


class Left:
    """The tasks, threads, descriptors and children of this process now."""

    def __init__(self) -> None:
        self.tasks = {task for task in asyncio.all_tasks() if not task.done()}
        self.descriptors = _descriptors()
        self.children = _children()

    async def check(self) -> None:
        """Fails if there is more than before after a second."""
        for _ in range(200):
            if not self._more():
                return
            await asyncio.sleep(0.01)
        raise AssertionError(self._more())

    def _more(self) -> dict[str, object]:
        tasks = {task for task in asyncio.all_tasks() if not task.done()} - self.tasks
        more: dict[str, object] = {
            "tasks": tasks,
            "descriptors": _descriptors() - self.descriptors,
            "children": _children() - self.children,
        }
        return {name: value for name, value in more.items() if value}


def _descriptors() -> set[str]:
    """Descriptors except those of event loops, whose executors stay."""
    found = set()
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        try:
            target = os.readlink(f"/proc/self/fd/{name}")  # noqa: PTH115
        except OSError:
            continue
        found.add(f"{name} {target}")
    return found


def _children() -> set[str]:
    found: set[str] = set()
    for thread in threading.enumerate():
        try:
            path = Path(f"/proc/self/task/{thread.native_id}/children")
            found |= set(path.read_text().split())
        except OSError:
            continue
    return found
