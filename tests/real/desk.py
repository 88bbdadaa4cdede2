"""Sessions with a real agent CLI: a separate store, and invariants of every log."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol, TypeVar

from tests.real.second_model import SecondModel
from tillerman.agents import load
from tillerman.core.agent import SessionSpec
from tillerman.core.events import (
    Entry,
    Event,
    MessageChunk,
    MessageWithdrawn,
    Text,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    Unrecognized,
    UsageReported,
)
from tillerman.core.session_options import session_spec
from tillerman.harness.harness import serve_tools
from tillerman.paths import Paths, find_paths
from tillerman.sessions.run_settings import RunSettings
from tillerman.sessions.service import Sessions
from tillerman.sessions.session import Session, read_all
from tillerman.store.database import Database
from tillerman.testing.model_double.server import ModelDouble

MAX_WAIT = 45.0  # seconds; opencode and qwen take most of it on a busy machine
KEY = "sk-fake-0123456789abcdef"

E = TypeVar("E")
_RUN_SETTINGS = set(RunSettings.__struct_fields__)


class Player(Protocol):
    """A real CLI and its folders: `stages.Actor`, or `RealClaude`."""

    @property
    def agent(self) -> str: ...
    @property
    def key(self) -> str: ...
    @property
    def model(self) -> str | None: ...
    @property
    def program(self) -> Path: ...
    @property
    def home(self) -> Path: ...
    @property
    def project(self) -> Path: ...
    def prepare(self, base_url: str) -> None: ...
    def environment(self, base_url: str, **more: str) -> dict[str, str]: ...


class Desk:
    """One process's view of the sessions under a folder; `desk.start()` accepts the fields of
    `SessionSpec` and `RunSettings`, and `environment` adds variables."""

    def __init__(self, player: Player, double: ModelDouble | SecondModel, folder: Path) -> None:
        self.player = player
        self.double = double
        self.folder = folder
        self.project = player.project
        self.paths: Paths = find_paths({"TILLERMAN_HOME": str(folder / "tillerman")})
        player.prepare(double.base_url)
        self._open()

    def _open(self) -> None:
        self._database = Database.open(self.paths.store)
        self.sessions = Sessions(self.paths, self._database, serve_tools)

    async def start(self, **settings: Any) -> Session:
        spec, run_settings = self._split(settings)
        return await self.sessions.start(load(self.player.agent), spec, run_settings)

    async def resume(self, session: str, *, fork: bool = False, **settings: Any) -> Session:
        spec, run_settings = self._split(settings)
        row = self.sessions.catalog.get(session)
        if fork:
            row = await self.sessions.fork(row)
        return await self.sessions.resume(row, load(self.player.agent), spec, run_settings)

    def log(self, session: Session) -> list[Entry]:
        return list(read_all(self.sessions.log, session.id))

    def raw(self, entry: Entry) -> bytes:
        return self.sessions.log.raw(entry.session, entry.seq) or b""

    async def reopen(self) -> None:
        """The same store and home in a new desk, with separate processes."""
        await self.close()
        self._open()

    async def close(self) -> None:
        await self.sessions.close()
        logs = [list(read_all(self.sessions.log, row.id)) for row in self.sessions.catalog.list()]
        self._database.close()
        for log in logs:
            check_log(log)

    def _split(self, settings: dict[str, Any]) -> tuple[SessionSpec, RunSettings]:
        key = self.player.key
        run_settings: dict[str, Any] = {"approve": "auto", "secrets": [(key, KEY)]}
        run_settings |= {name: value for name, value in settings.items() if name in _RUN_SETTINGS}
        more = {key: KEY} | run_settings.get("environment", {})
        run_settings["environment"] = self.player.environment(self.double.base_url, **more)
        spec: dict[str, Any] = {"cwd": self.project, "model": self.player.model}
        spec["accept_advisory"] = True  # of those that hold nothing, too
        spec |= {name: value for name, value in settings.items() if name not in _RUN_SETTINGS}
        spec["options"] = {"binary": str(self.player.program)} | spec.get("options", {})
        return session_spec(**spec), RunSettings(**run_settings)


def check_log(log: list[Entry]) -> None:
    """Invariants of every session."""
    assert [entry.seq for entry in log] == list(range(1, len(log) + 1))
    assert of(log, Unrecognized) == []
    begun = Counter(entry.turn for entry in log if isinstance(entry.event, TurnStarted))
    ended = Counter(entry.turn for entry in log if isinstance(entry.event, TurnEnded))
    assert begun == ended
    assert set(begun.values()) <= {1}
    finished = Counter(call.call_id for call in of(log, ToolFinished))
    assert set(finished.values()) <= {1}
    assert finished.keys() <= {call.call_id for call in of(log, ToolStarted)}
    whole = {e.turn for e in log if e.event == TurnEnded(reason="completed")}
    begun_there = [e.event for e in log if e.turn in whole and isinstance(e.event, ToolStarted)]
    # a background subagent may be cut off with its session
    assert {call.call_id for call in begun_there if call.parent is None} <= finished.keys()


async def run(session: Session, text: str, **more: Any) -> list[Entry]:
    """All entries from a prompt until the agent is idle."""
    async with asyncio.timeout(MAX_WAIT * 2):
        return [entry async for entry in session.run(text, **more)]


async def until(
    session: Session,
    kind: type[E],
    where: Callable[[E], bool] = lambda event: True,
    *,
    since: int = 0,
) -> E:
    """Waits for the first such event."""
    async with asyncio.timeout(MAX_WAIT):
        async for entry in session.entries(since):
            if isinstance(entry.event, kind) and where(entry.event):
                return entry.event
    raise AssertionError(f"no {kind.__name__} before the session ended")


async def until_true(condition: Callable[[], bool], within: float = MAX_WAIT) -> None:
    async with asyncio.timeout(within):
        while not condition():  # noqa: ASYNC110 - it is other processes that change it
            await asyncio.sleep(0.02)


def of(entries: Iterable[Entry], kind: type[E]) -> list[E]:
    return [entry.event for entry in entries if isinstance(entry.event, kind)]


def usages(entries: Iterable[Entry]) -> list[UsageReported]:
    """Usage reports, except those of calls that only start."""
    return [report for report in of(entries, UsageReported) if report.call != "begun"]


def turns_of(entries: Iterable[Entry], *kinds: type[Event]) -> list[int]:
    """The turn of each event of these kinds."""
    return [entry.turn for entry in entries if isinstance(entry.event, kinds)]


def agent_text(entries: Iterable[Entry], turn: int | None = None, parent: str | None = None) -> str:
    """The agent's messages, except withdrawn ones."""
    entries = list(entries)
    gone = {event.message_id for event in of(entries, MessageWithdrawn)}
    return "".join(
        entry.event.text
        for entry in entries
        if isinstance(entry.event, MessageChunk)
        and entry.event.parent == parent
        and entry.event.message_id not in gone
        and turn in (None, entry.turn)
    )


def ends(entries: Iterable[Entry]) -> list[TurnEnded]:
    return of(entries, TurnEnded)


def started(entries: Iterable[Entry], call_id: str) -> ToolStarted:
    [event] = [event for event in of(entries, ToolStarted) if event.call_id == call_id]
    return event


def finished(entries: Iterable[Entry], call_id: str) -> ToolFinished:
    [event] = [event for event in of(entries, ToolFinished) if event.call_id == call_id]
    return event


def shown(event: ToolFinished) -> str:
    """The text of a tool's result."""
    return "\n".join(part.text for part in event.content if isinstance(part, Text))


def processes_with(variable: str) -> list[str]:
    """Processes whose environment contains this `NAME=value`."""
    found, wanted = [], variable.encode()
    for pid in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208 - it is asked all the time
        try:
            if wanted not in _read(pid, "environ").split(b"\0"):
                continue
            command = _read(pid, "cmdline").replace(b"\0", b" ").decode()
            zombie = b"\nState:\tZ" in _read(pid, "status")
        except OSError:
            continue
        if not zombie:
            found.append(f"{pid} {command[:120]}")
    return found


def _read(pid: str, name: str) -> bytes:
    with open(f"/proc/{pid}/{name}", "rb", buffering=0) as file:  # noqa: PTH123
        return file.readall()


async def no_process_left(player: Player) -> None:
    """Asserts that every process it started, directly or not, ends within 2 s."""
    home = f"HOME={player.home}"
    with contextlib.suppress(TimeoutError):
        await until_true(lambda: not processes_with(home), within=2)
    assert processes_with(home) == []
