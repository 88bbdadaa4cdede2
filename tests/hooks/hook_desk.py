"""Shims as processes, and servers that are not tillerman's."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from tillerman.hooks.server import HookServer
from tillerman.hooks.socket_folder import Tokens, listen_here, make_folder, new_tokens

WITHIN = 30.0

Open = Callable[..., Awaitable[HookServer]]


class Ran(NamedTuple):
    exit: int
    stdout: bytes
    stderr: bytes


class Running:
    """A hook's command, as a CLI runs it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    @classmethod
    async def start(cls, command: str, env: dict[str, str] | None = None) -> Running:
        return cls(
            await asyncio.create_subprocess_exec(
                *("/bin/sh", "-c", command),
                env={"PATH": os.defpath} | (env or {}),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        )

    async def end(self, payload: bytes | None = b"") -> Ran:
        """None leaves stdin open without data."""
        process = self.process
        assert process.stdin and process.stdout and process.stderr
        try:
            async with asyncio.timeout(WITHIN):
                if payload is None:
                    out, error = await asyncio.gather(process.stdout.read(), process.stderr.read())
                    await process.wait()
                else:
                    out, error = await process.communicate(payload)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        assert process.returncode is not None
        return Ran(process.returncode, out, error)

    async def shim(self) -> int:
        """The pid of the shim itself, below the shell."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        async with asyncio.timeout(WITHIN):
            while not (pids := children.read_text().split()):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        return int(pids[0])

    def feed(self, payload: bytes) -> None:
        assert self.process.stdin
        self.process.stdin.write(payload)
        self.process.stdin.close()


async def run(command: str, payload: bytes | None = b"", env: dict[str, str] | None = None) -> Ran:
    return await (await Running.start(command, env)).end(payload)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WITHIN):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


Pieces = Callable[[Tokens, bytes], Iterable[bytes]]  # of the tokens and the nonce that was sent


@contextlib.asynccontextmanager
async def impostor(folder: Path, pieces: Pieces) -> AsyncIterator[Path]:
    """Listens in the server's place, reads the request, and sends these pieces one by one."""
    folder = make_folder(folder)
    tokens = new_tokens(folder)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            words = (await reader.readline()).split(b" ")
            if len(words) == 7:
                await reader.readexactly(int(words[6]))
                for piece in pieces(tokens, words[2]):
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0)
        writer.close()

    server = await asyncio.start_unix_server(answer, sock=listen_here(folder))
    try:
        yield folder
    finally:
        server.close()
