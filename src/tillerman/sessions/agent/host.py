"""The host of an agent: supervised processes, environment, spill files for long output."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tillerman.core.agent import Child, Word
from tillerman.core.events import Notice
from tillerman.paths import make_private
from tillerman.sessions.log.size_limits import DiskBudget
from tillerman.supervision.client.warden_client import WardenClient
from tillerman.supervision.linux.which import find_program
from tillerman.supervision.secrets import Redactor, Secrets

if TYPE_CHECKING:
    from tillerman.hooks.server import HookAsked, HookServer
    from tillerman.sessions.enforcement.settings import SessionEnforcement

BLOCK = 256 * 1024  # bytes of a spill redacted at once


class SessionHost:
    def __init__(
        self,
        warden: WardenClient,
        environment: Mapping[str, str],
        secrets: Secrets,
        *,
        spill_folder: Path,
        spill_cap: int,
        line_cap: int,
        budget: DiskBudget,
        request_timeout: float | None = None,
        enforcement: SessionEnforcement | None = None,
        report: Callable[[Notice], None] = lambda _: None,
    ) -> None:
        self.request_timeout = request_timeout
        self.report = report
        self._warden = warden
        self._environment = environment
        self._secrets = secrets
        self._folder = spill_folder
        self._spill_cap = spill_cap
        self._line_cap = line_cap
        self._budget = budget
        self._enforcement = enforcement
        self._numbers = itertools.count(1)
        self._put: list[Path] = []

    @property
    def level(self) -> str:
        return str(self._warden.level)

    @property
    def line_cap(self) -> int:
        return self._line_cap

    def find(self, binary: str) -> str | None:
        return find_program(binary, self._environment.get("PATH"))

    def variable(self, name: str) -> str | None:
        return self._environment.get(name)

    def place_file(self, path: Path, content: bytes) -> bool:
        if self._enforcement:
            self._put.append(path)
            self._enforcement.protection.expect(path, content)
        return self._warden.places.put(str(path), content)

    def remove_placed_files(self) -> None:
        while self._enforcement and self._put:
            self._enforcement.protection.expect(self._put.pop(), None)
        self._warden.places.take_back()

    async def spawn(
        self,
        argv: Sequence[Word],
        *,
        cwd: Path,
        env: Mapping[str, Word] = {},
        stdin: bool = True,
        enforced: bool = True,
    ) -> Child:
        whole = {**self._environment, **env}
        ours = self._enforcement
        child = await self._warden.spawn(
            argv,
            cwd=cwd,
            env=whole,
            stdin=stdin,
            enforcement=ours.enforcement(self._environment, commands=enforced) if ours else {},
        )
        if ours:
            ours.started(child.mount_failures)
        return child

    async def hooks(
        self, asked: Callable[[HookAsked], None], overdue: Callable[[int | None], None]
    ) -> HookServer:
        from tillerman.hooks.server import HookServer  # lazy: few agents use hooks

        return await HookServer.open(self._warden.folder / "hooks", asked, overdue=overdue)

    def spill(self) -> SpillFile:
        with contextlib.suppress(OSError):
            make_private(self._folder)
        while True:
            path = self._folder / f"{next(self._numbers):05}"
            try:
                fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            except FileExistsError:
                continue
            except OSError:
                return SpillFile(path.name, None, 0, self._secrets, self._budget)
            return SpillFile(path.name, fd, self._spill_cap, self._secrets, self._budget)


class SpillFile:
    """Spills long output to a file, redacted and up to the caps; records how much it dropped.

    A full or failing disk is treated like a cap: a long line must not end the turn.
    """

    def __init__(
        self, name: str, fd: int | None, cap: int, secrets: Secrets, budget: DiskBudget
    ) -> None:
        self._name = name
        self._fd = fd
        self._room = cap
        self._budget = budget
        self._dropped = 0
        self._redactor = Redactor(secrets)

    def write(self, data: bytes) -> None:
        for start in range(0, len(data), BLOCK):
            self._store(self._redactor.feed(data[start : start + BLOCK]))

    def close(self) -> str:
        self._store(self._redactor.flush())
        if self._dropped:
            self._write(f"\n[{self._dropped} bytes over the size limit were dropped]\n".encode())
        if self._fd is not None:
            os.close(self._fd)
        return self._name

    def _store(self, data: bytes) -> None:
        stored = self._write(data[: self._budget.take(min(self._room, len(data)))])
        self._room -= stored
        if stored < len(data):
            self._dropped += len(data) - stored
            self._room = 0  # later data would be at the wrong offset

    def _write(self, data: bytes) -> int:
        written = 0
        with contextlib.suppress(OSError):
            while self._fd is not None and written < len(data):
                written += os.write(self._fd, data[written:])
        return written
