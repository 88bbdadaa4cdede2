"""Runs the command of a step under supervision; its output goes to a file of bounded size."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from tillerman.agents.stdio.pipes import PipeReader
from tillerman.core.terminal_sanitizer import clean
from tillerman.supervision.client.warden_client import WardenClient

TAIL = 16_000  # bytes of output that later steps can see, from its end
MOST_STORED = 4 << 20  # bytes of output in the file, from its beginning

LineSeen = Callable[[str], None]


class CommandEnded(NamedTuple):
    code: int | None  # None: a signal, or the time limit
    signal: int | None
    output: str  # its end
    timed_out: bool = False


async def run_command(
    warden: WardenClient,
    command: str,
    *,
    cwd: Path,
    env: Mapping[str, str],
    stored: Path,
    limit: float | None,
    on_line: LineSeen,
) -> CommandEnded:
    """Runs it in a shell to its end, then kills the processes that it left."""
    argv = ["/bin/sh", "-c", f"exec 2>&1\n{command}"]
    child = await warden.spawn(argv, cwd=cwd, env=env, stdin=False)
    stdout, unused = PipeReader(child.stdout), PipeReader(child.stderr)
    ending = asyncio.create_task(child.wait())
    ending.add_done_callback(lambda _: stdout.finish())
    output = _Output(stored, on_line)
    try:
        async with asyncio.timeout(limit):
            while chunk := await stdout.read():
                output.add(chunk)
            exit = await ending
    except TimeoutError:
        return CommandEnded(None, None, output.tail, timed_out=True)
    finally:
        output.close()
        stdout.close()
        unused.close()
        await asyncio.shield(child.kill())
        ending.cancel()
    return CommandEnded(exit.code, exit.signal, output.tail)


class _Output:
    def __init__(self, path: Path, on_line: LineSeen) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        self._file = os.open(path, flags, 0o600)
        self._room = MOST_STORED
        self._end = b""
        self._on_line = on_line

    @property
    def tail(self) -> str:
        return clean(self._end.decode("utf-8", "replace")).strip()

    def add(self, chunk: bytes) -> None:
        if self._room > 0:
            self._room -= os.write(self._file, chunk[: self._room])
            if self._room <= 0:
                os.write(self._file, b"\n[the rest of the output is not stored]\n")
        self._end = (self._end + chunk)[-TAIL:]
        lines = self._end[-1000:].decode("utf-8", "replace").strip().splitlines()
        if lines:
            self._on_line(clean(lines[-1]))

    def close(self) -> None:
        os.close(self._file)
