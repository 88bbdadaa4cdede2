"""Test host for an agent: supervised children and a spill folder, without a session."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from tillerman.core.agent import Child, Spill, Word
from tillerman.core.events import Notice
from tillerman.hooks.server import HookAsked, HookServer
from tillerman.supervision.client.warden_client import WardenClient

LINE_CAP = 16 * 1024 * 1024
SPILL_CAP = 64 * 1024 * 1024


class PlainHost:
    """Opened by `async with PlainHost.open(folder)`; `folder` is the home of its children."""

    request_timeout = None

    def __init__(
        self, warden: WardenClient, folder: Path, line_cap: int, env: Mapping[str, str]
    ) -> None:
        self.folder = folder
        self.line_cap = line_cap
        self._warden = warden
        self._env = {"PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8", **env}
        self._spills = itertools.count(1)
        self.reported: list[Notice] = []

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        folder: Path,
        *,
        level: str = "auto",
        line_cap: int = LINE_CAP,
        env: Mapping[str, str] | None = None,
    ) -> AsyncIterator[PlainHost]:
        warden = await WardenClient.start(
            level=level, records=folder / "records", marker=folder.name
        )
        try:
            yield cls(warden, folder, line_cap, env or {})
        finally:
            await warden.close()

    @property
    def level(self) -> str:
        return str(self._warden.level)

    def find(self, binary: str) -> str | None:
        return shutil.which(binary, path=self._env["PATH"])

    def variable(self, name: str) -> str | None:
        return self._env.get(name)

    def report(self, notice: Notice) -> None:
        self.reported.append(notice)

    def place_file(self, path: Path, content: bytes) -> bool:
        return self._warden.places.put(str(path), content)

    def remove_placed_files(self) -> None:
        self._warden.places.take_back()

    def spill(self) -> Spill:
        folder = self.folder / "spill"
        folder.mkdir(exist_ok=True)
        return FileSpill(folder / str(next(self._spills)))

    async def hooks(
        self, asked: Callable[[HookAsked], None], overdue: Callable[[int | None], None]
    ) -> HookServer:
        return await HookServer.open(self._warden.folder / "hooks", asked, overdue=overdue)

    async def spawn(
        self,
        argv: Sequence[Word],
        *,
        cwd: Path,
        env: Mapping[str, Word] = {},
        stdin: bool = True,
        enforced: bool = True,
    ) -> Child:
        return await self._warden.spawn(argv, cwd=cwd, env={**self._env, **env}, stdin=stdin)


class FileSpill:
    """Stores the beginning of the data, up to its cap."""

    def __init__(self, path: Path, cap: int = SPILL_CAP) -> None:
        self._path = path
        self._room = cap
        self._file = path.open("wb")

    def write(self, data: bytes) -> None:
        if self._room > 0:
            self._room -= self._file.write(data[: self._room])

    def close(self) -> str:
        self._file.close()
        return self._path.name
