"""Runs a user's command beside the agent; returns its exit status and the end of its output."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tillerman.core.agent import Exit, Host
from tillerman.core.terminal_sanitizer import clean

if TYPE_CHECKING:
    from tillerman.agents.stdio.pipes import PipeWriter

TAIL = 8_000  # bytes of output, from its end


class UserCommandResult(NamedTuple):
    exit: Exit
    said: str

    @property
    def how(self) -> str:
        """The exit status as text."""
        return f"signal {self.exit.signal}" if self.exit.signal else f"exit code {self.exit.code}"


async def run(
    host: Host, command: str, *, cwd: Path, limit: float, input: bytes | None = None
) -> UserCommandResult:
    """Runs the command in a shell. `TimeoutError` after `limit` seconds; kills its processes."""
    from tillerman.agents.stdio.pipes import (  # lazy: few sessions have such a command
        PipeReader,
        PipeWriter,
    )

    argv = ["/bin/sh", "-c", f"exec 2>&1\n{command}"]
    child = await host.spawn(argv, cwd=cwd, stdin=input is not None, enforced=False)
    stdout, unused = PipeReader(child.stdout), PipeReader(child.stderr)
    stdin = PipeWriter(child.stdin) if child.stdin is not None else None
    feeding = asyncio.create_task(_feed(stdin, input or b"")) if stdin else None
    ending = asyncio.create_task(child.wait())
    ending.add_done_callback(lambda _: stdout.finish())
    output = b""
    try:
        async with asyncio.timeout(limit):
            while chunk := await stdout.read():
                output = (output + chunk)[-TAIL:]
            exit = await ending
    finally:
        for pipe in (stdout, unused, stdin):
            if pipe:
                pipe.close()
        await asyncio.shield(child.kill())
        for task in (feeding, ending):
            if task:
                task.cancel()
    return UserCommandResult(exit, clean(output.decode("utf-8", "replace")).strip())


async def _feed(stdin: PipeWriter, input: bytes) -> None:
    await stdin.write(input)
    stdin.close()
