"""Child process with line-based I/O: reads lines, sends messages, reports the exit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

import msgspec

from tillerman.agents.stdio.line_decoder import Line, LineSplitter
from tillerman.agents.stdio.pipes import PipeReader, PipeWriter
from tillerman.agents.stdio.stderr_lines import StderrLines
from tillerman.core.agent import Child, Exit, Host, Word

BATCH = 1000  # lines: a chunk may hold a hundred thousand, and each becomes an event
STDERR_TAIL = 40 * 1024  # more than is shown, so that no secret is cut before redaction

_encode = msgspec.json.Encoder().encode


class LineProcess:
    """Ends when the process itself exits, even if a grandchild still holds the pipes."""

    def __init__(self, child: Child, host: Host) -> None:
        self._child = child
        self._lines = LineSplitter(host.line_cap, host.spill)
        self._stdout = PipeReader(child.stdout)
        self._stderr = PipeReader(child.stderr)
        self._stdin = PipeWriter(child.stdin) if child.stdin is not None else None
        self._stderr_tail = b""
        self._stderr_lines: StderrLines | None = None
        self._watch = asyncio.create_task(self._wait())
        self._drain = asyncio.create_task(self._drain_stderr())

    @classmethod
    async def start(
        cls, host: Host, argv: Sequence[Word], *, cwd: Path, env: Mapping[str, Word]
    ) -> LineProcess:
        return cls(await host.spawn(argv, cwd=cwd, env=env), host)

    async def lines(self) -> AsyncIterator[list[Line]]:
        """Batches of lines as they arrive; ends when the process has ended."""
        while chunk := await self._stdout.read():
            lines = self._lines.feed(chunk)
            while batch := list(islice(lines, BATCH)):
                yield batch
                del batch
        if batch := list(self._lines.end()):
            yield batch

    def lines_and_stderr(self) -> AsyncIterator[list[Line] | str]:
        """Like `lines`, with single stderr lines from now on in between."""
        self._stderr_lines = StderrLines()
        return self._stderr_lines.beside(self.lines())

    async def send(self, messages: Sequence[object]) -> None:
        if messages and self._stdin:
            await self._stdin.write(b"".join(_encode(message) + b"\n" for message in messages))

    async def write(self, data: bytes) -> None:
        if self._stdin:
            await self._stdin.write(data)

    def close_stdin(self) -> None:
        if self._stdin:
            self._stdin.close()

    async def exit(self) -> Exit:
        return await asyncio.shield(self._watch)

    @property
    def stderr_tail(self) -> str:
        return self._stderr_tail.decode("utf-8", "replace")

    def signal(self, number: int) -> None:
        self._child.signal(number)

    async def kill(self) -> Exit:
        await self._child.kill()
        return await self.exit()

    async def _wait(self) -> Exit:
        exit = await self._child.wait()
        self._stdout.finish()
        self._stderr.finish()
        self.close_stdin()
        await self._drain
        return exit

    async def _drain_stderr(self) -> None:
        while chunk := await self._stderr.read():
            self._stderr_tail = (self._stderr_tail + chunk)[-STDERR_TAIL:]
            if self._stderr_lines:
                self._stderr_lines.feed(chunk)
