"""Output folders of a session's processes; the next one is created in advance.

Creating a folder and its files takes longer than sending a command to a keeper. An unused folder is
removed after some time, or by `process_records` if its server was killed.
"""

from __future__ import annotations

import asyncio
import secrets
import shutil
from pathlib import Path
from typing import NamedTuple

from tillerman.paths import private_folder
from tillerman.supervision.client.child_processes import close_files, open_files
from tillerman.workspace.processes.process_records import PREFIX

__all__ = ["OutputFolder", "OutputFolders", "close_files"]

_CREATED_AFTER = 0.01  # seconds after a command started
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
        self._next: OutputFolder | None = None
        self._timer: asyncio.TimerHandle | None = None

    def pop(self) -> OutputFolder:
        """Returns a folder for a new process. Raises OSError if it cannot be created."""
        self._cancel()
        found, self._next = self._next, None
        return found or self._make()

    def prepare(self) -> None:
        """Creates the next folder soon, and holds it for some time."""
        self._cancel()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(_CREATED_AFTER, self._prepare)

    def close(self) -> None:
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
        self._timer = asyncio.get_running_loop().call_later(_KEPT_FOR, self.close)

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
