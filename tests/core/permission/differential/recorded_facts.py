"""Stores what shells did on disk, so that a changed reader is checked without running lines again.

One file for each range of lines, in a folder named after a hash of the code that runs them. A line
that is missing, or that the generator changed, runs.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable
from pathlib import Path

import msgspec

from tests.core.permission.differential.executor import SHELLS, Executor
from tests.core.permission.differential.facts import Facts

_HERE = Path(__file__).parent
_SOURCES = (
    "change_events",
    "exec_log",
    "executor",
    "facts",
    "namespace",
    "sandbox",
    "shell_process",
    "stubs",
    "tree",
)


def fingerprint() -> str:
    """A hash of the shells, and of the code that runs them and collects facts."""
    found = hashlib.sha256()
    sources = [_HERE / f"{name}.py" for name in _SOURCES]
    for path in [*sources, *(Path("/bin", name) for name in SHELLS)]:
        found.update(path.read_bytes())
    return found.hexdigest()[:12]


class RecordedFacts:
    """An executor that runs only what is not recorded."""

    def __init__(self, executor: Executor, path: Path) -> None:
        self._executor = executor
        self._path = path
        self._answers: dict[tuple[str, bytes], bytes] = {}
        self._is_saved = path.exists()
        if self._is_saved:
            packed = zlib.decompress(path.read_bytes())
            records = msgspec.msgpack.decode(packed, type=list[tuple[str, bytes, bytes]])
            self._answers = {(shell, line): answer for shell, line, answer in records}

    def ask(self, runs: Iterable[tuple[str, str]]) -> None:
        self._executor.ask(run for run in runs if _key(*run) not in self._answers)

    def run(self, shell: str, line: str) -> Facts:
        key = _key(shell, line)
        answer = self._answers.get(key)
        if answer is None:
            answer = self._answers[key] = self._executor.answer(shell, line)
            self._is_saved = False
        return Facts.decoded(answer)

    def save(self) -> None:
        if self._is_saved:
            return
        records = [(*key, answer) for key, answer in self._answers.items()]
        self._path.parent.mkdir(parents=True, exist_ok=True)
        draft = self._path.with_suffix(".new")
        draft.write_bytes(zlib.compress(msgspec.msgpack.encode(records), 6))
        draft.replace(self._path)
        self._is_saved = True


def _key(shell: str, line: str) -> tuple[str, bytes]:
    return shell, line.encode(errors="surrogateescape")
