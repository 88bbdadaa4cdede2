"""Runs an agent's own commands to their end: supervised, bounded in time and output."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from bridle.agents.pipes import PipeReader, PipeWriter
from bridle.core.agent import Exit, Ran, Word
from bridle.supervision.tree import Warden

MOST_OUTPUT = 4 * 1024 * 1024


class Errands:
    """An `async with` around one warden; each call is a program that runs to its end."""

    def __init__(
        self,
        environment: Mapping[str, str],
        *,
        cwd: Path,
        records: Path,
        marker: str,
        binaries: Mapping[str, str] = {},  # found here instead of on PATH
    ) -> None:
        self._environment = environment
        self._cwd = cwd
        self._binaries = binaries
        self._records = records
        self._marker = marker
        self._warden: Warden | None = None

    async def __aenter__(self) -> Errands:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        if self._warden:
            await self._warden.close()

    def find(self, binary: str) -> str | None:
        binary = self._binaries.get(binary, binary)
        return shutil.which(binary, path=self._environment.get("PATH"))

    async def __call__(
        self,
        argv: Sequence[Word],
        *,
        env: Mapping[str, str] = {},
        input: bytes = b"",
        limit: float = 20,
    ) -> Ran:
        if self._warden is None:
            self._warden = await Warden.start(records=self._records, marker=self._marker)
        child = await self._warden.spawn(argv, cwd=self._cwd, env={**self._environment, **env})
        assert child.stdin is not None
        stdin = PipeWriter(child.stdin)
        stdout, stderr = PipeReader(child.stdout), PipeReader(child.stderr)
        said = asyncio.gather(_read(stdout), _read(stderr), _write(stdin, input))
        try:
            exit = await asyncio.wait_for(child.wait(), limit)
        except TimeoutError:
            await child.kill()
            exit = Exit(124, None)
        stdout.finish()
        stderr.finish()
        stdin.close()
        out, errors, _ = await said
        return Ran(exit, out, errors)


async def _write(pipe: PipeWriter, data: bytes) -> None:
    await pipe.write(data)
    pipe.close()


async def _read(pipe: PipeReader) -> bytes:
    kept = b""
    while chunk := await pipe.read():
        kept += chunk[: MOST_OUTPUT - len(kept)]
    return kept
