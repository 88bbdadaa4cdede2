"""Output folders of a session's processes; the next one is created in advance.

Creating a folder and its files takes longer than sending a command to a keeper. An unused folder is
removed after some time, or by `process_records` if its server was killed.
"""

from __future__ import annotations

import asyncio
import secrets
import shutil
from pathlib import Path
from typing import Any, NamedTuple

from tillerman.paths import private_folder
from tillerman.supervision.client.child_processes import close_files, open_files
from tillerman.workspace.processes.process_records import PREFIX

__all__ = ["OutputFolder", "OutputFolders", "close_files"]

_AFTER_START = 0.1  # seconds from the start of a command until the next folder is created
_AFTER_END = 0.005  # the same from its end; before that its result is delivered
_KEPT_FOR = 30.0  # seconds without a command


class OutputFolder(NamedTuple):
    """`files`: descriptors of the folder, and of its stdout and stderr files."""

    name: str
    path: Path
    files: tuple[int, int, int]


class OutputFolders:
    """The folders of a session. `folder` is that of all sessions."""

    def __init__(self, folder: Path, session: str) -> None:
        self._folder = folder
        self._session = session
        self._closed = False
        self._next: OutputFolder | None = None
        self._timer: asyncio.TimerHandle | None = None

    def pop(self) -> OutputFolder:
        """Returns a folder for a new process. Raises OSError if it cannot be created."""
        self._cancel()
        found, self._next = self._next, None
        return found or self._make()

    def prepare(self, ended: asyncio.Future[Any]) -> None:
        """Creates the next folder soon after a command ended, and holds it for some time."""
        self._prepare_in(_AFTER_START)
        ended.add_done_callback(lambda _: self._prepare_in(_AFTER_END))

    def _prepare_in(self, seconds: float) -> None:
        if not self._closed and self._next is None:
            self._cancel()
            self._timer = asyncio.get_running_loop().call_later(seconds, self._prepare)

    def close(self) -> None:
        """Removes the unused folder; no other one is prepared."""
        self._closed = True
        self._drop()

    def _drop(self) -> None:
        self._cancel()
        if self._next:
            close_files(self._next.files)
            shutil.rmtree(self._next.path, ignore_errors=True)
            self._next = None

    def _prepare(self) -> None:
        if self._next is None:
            try:
                self._next = self._make()
            except OSError:
                return  # the command that needs one will be refused
        self._timer = asyncio.get_running_loop().call_later(_KEPT_FOR, self._drop)

    def _make(self) -> OutputFolder:
        name = f"{PREFIX}{secrets.token_hex(5)}"
        path = self._folder / self._session / name
        try:
            path.mkdir(mode=0o700)
        except FileNotFoundError:
            private_folder(self._folder)
            private_folder(path.parent)
            path.mkdir(mode=0o700)
        try:
            return OutputFolder(name, path, open_files(path))
        except BaseException:
            shutil.rmtree(path, ignore_errors=True)
            raise

    def _cancel(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None
