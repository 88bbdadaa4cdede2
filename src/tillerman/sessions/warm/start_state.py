"""What an agent's program may have read when it started, beside its arguments and variables.

Some agents read the repository's status, instructions and settings while they load, and not again
before the first prompt. An agent that started before any of it changed must not be used.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tillerman.config.project_trust import repository
from tillerman.core.agent import StartFiles
from tillerman.core.permission.protected_names import INSTRUCTIONS, plain
from tillerman.sessions.permissions.project_rules import ProjectRules
from tillerman.workspace.git.repository_state import read_status
from tillerman.workspace.protection.early_scan import early_scans
from tillerman.workspace.protection.protected_state import PathMark, mark_of

if TYPE_CHECKING:
    from tillerman.core.permission import Rule
    from tillerman.paths import Paths
    from tillerman.sessions.run_settings import LaunchPlan

SECONDS = 0.5  # for the status of the repository: a start that waits longer gains nothing
MOST_FILES = 2_000  # of the user's settings
MOST_BYTES = 16 << 20  # of a file that is read for one of its keys

Marks = Mapping[str, PathMark | str | None]


class StartState(NamedTuple):
    day: date  # agents tell their model
    program: PathMark | None
    settings: Marks
    instructions: Marks  # in the folders around the workspace, and changed notes in it
    protected: Mapping[str, object]
    rules: tuple[Rule, ...]  # remembered for the project
    status: bytes  # of the repository: commit, branch, changed and untracked files


async def start_state(plan: LaunchPlan, paths: Paths) -> StartState | None:
    """None if it cannot be told in time, or if it is not known what the agent reads."""
    files = plan.agent.info.start_files
    if files is None:
        return None
    try:
        root = repository(plan.spec.cwd)
        status = await read_status(root, seconds=SECONDS) if root else b""
        return await asyncio.to_thread(_state, plan, files, paths, root, status)
    except (OSError, ValueError, RecursionError):
        return None


def _state(
    plan: LaunchPlan, files: StartFiles, paths: Paths, root: Path | None, status: bytes
) -> StartState:
    cwd, environment = plan.spec.cwd, plan.run_settings.environment
    binary = plan.spec.native.options.get("binary") or plan.agent.info.binary
    return StartState(
        day=date.today(),
        program=_mark(_program(str(binary), environment)) if binary else None,
        settings=dict(_settings(files, environment)),
        instructions=dict([*_around(cwd), *_changed_notes(root, status)]),
        protected=_protected(cwd),
        rules=ProjectRules.of(paths, cwd).rules(),
        status=status,
    )


def _program(binary: str, environment: Mapping[str, str]) -> Path:
    from tillerman.supervision.linux.which import find_program

    return Path(find_program(binary, environment.get("PATH")) or binary)


def _protected(cwd: Path) -> dict[str, object]:
    return {
        path: (dict(state.nodes), dict(state.instructions))
        for path, state in early_scans(str(cwd)).items()
    }


def _settings(
    files: StartFiles, environment: Mapping[str, str]
) -> Iterator[tuple[str, PathMark | str | None]]:
    home = Path(environment.get("HOME") or Path.home())
    variable, moved = files.moved
    elsewhere = environment.get(variable, "")
    for name in files.names:
        file, _, key = name.partition("#")
        path = home / file
        if elsewhere and moved and file.startswith(f"{moved}/"):
            path = Path(elsewhere, file.removeprefix(f"{moved}/"))
        if key:
            yield name, _values(path, key)
        else:
            yield from _marks_below(path)


def _marks_below(path: Path) -> Iterator[tuple[str, PathMark | None]]:
    waiting, count = [path], 0
    while waiting:
        count += 1
        if count > MOST_FILES:
            raise ValueError(f"{path} has too many files")
        one = waiting.pop()
        yield str(one), _mark(one)
        if one.is_dir():
            waiting += one.iterdir()


def _values(path: Path, key: str) -> str | None:
    """All values of the key in a JSON file that the agent itself rewrites."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ValueError(f"{path} is too large")
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    return json.dumps(list(_found(content, key)), sort_keys=True)


def _found(value: Any, key: str) -> Iterator[Any]:
    if isinstance(value, dict):
        if key in value:
            yield value[key]
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from _found(one, key)


def _around(cwd: Path) -> Iterator[tuple[str, PathMark | None]]:
    for folder in cwd.parents:
        with suppress(OSError), os.scandir(folder) as found:
            for entry in found:
                if plain(entry.name) in INSTRUCTIONS:
                    yield entry.path, _mark(Path(entry.path))


def _changed_notes(root: Path | None, status: bytes) -> Iterator[tuple[str, PathMark | None]]:
    """Instructions may include other notes: of a changed one, the status tells only that it is."""
    if root is None:
        return
    for record in status.split(b"\0"):
        if record.endswith((b".md", b".MD")):
            words = {b"1": 8, b"2": 9, b"u": 10, b"?": 1}.get(record[:1], 0)  # before the path
            path = root / os.fsdecode(record.split(b" ", words)[-1])
            yield str(path), _mark(path)


def _mark(path: Path) -> PathMark | None:
    """Of the file that the path leads to."""
    try:
        return mark_of(path.stat())
    except OSError:
        return None
