"""A short program, asked without blocking: bounded in time and in words, nothing left of it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MOST = 4 << 20  # bytes of what it says that are kept
_LAST_WORDS = 16 << 10  # of its errors
_LINGERING = 1.0  # seconds that its pipes, or its end after a kill, are waited for


class CommandMissing(Exception):
    """It cannot be started."""


class CommandTimeout(Exception):
    """It took longer than it may, and was ended."""


@dataclass(frozen=True)
class CommandOutput:
    code: int
    out: bytes
    err: bytes = b""  # the end of it
    cut: bool = False  # it said more than is kept, and was ended there

    @property
    def complaint(self) -> str:
        """The last line of its errors."""
        lines = self.err.decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else f"it ended with {self.code}"


async def ask(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    seconds: float,
    most: int = MOST,
) -> CommandOutput:
    """Its end is the end of it: who else holds its pipes is waited for a moment, and left."""
    starting = asyncio.ensure_future(
        asyncio.get_running_loop().subprocess_exec(
            lambda: _Listener(most),
            *argv,
            cwd=cwd,
            env=dict(env),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
    )
    try:
        transport, listener = await asyncio.shield(starting)
    except OSError as error:
        raise CommandMissing(f"{argv[0]} cannot be started: {error.strerror}") from None
    except asyncio.CancelledError:  # it may run already, and have started others
        with suppress(OSError):
            await _end(*await starting)
        raise
    try:
        async with asyncio.timeout(seconds):
            await listener.over.wait()
            if listener.cut:
                _kill(transport.get_pid())
            await listener.exited.wait()
            with suppress(TimeoutError):
                async with asyncio.timeout(_LINGERING):
                    await listener.closed.wait()
        return listener.said(transport.get_returncode())
    except TimeoutError:
        raise CommandTimeout(f"{Path(argv[0]).name} took longer than {seconds:g} s") from None
    finally:
        await _end(transport, listener)


async def _end(transport: asyncio.SubprocessTransport, listener: _Listener) -> None:
    """And whatever it left behind."""
    _kill(transport.get_pid())
    with suppress(TimeoutError):
        async with asyncio.timeout(_LINGERING):
            await listener.exited.wait()
    transport.close()


class _Listener(asyncio.SubprocessProtocol):
    """Keeps the beginning of what is said, and the end of what is complained of."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._out = bytearray()
        self._err = b""
        self._open = {1, 2}
        self.cut = False
        self.over = asyncio.Event()  # it ended, or said too much
        self.exited = asyncio.Event()
        self.closed = asyncio.Event()

    def said(self, code: int | None) -> CommandOutput:
        return CommandOutput(-1 if code is None else code, bytes(self._out), self._err, self.cut)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            self._err = (self._err + data)[-_LAST_WORDS:]
            return
        self._out += data[: self._most + 1 - len(self._out)]
        if len(self._out) > self._most:
            del self._out[self._most :]
            self.cut = True
            self.over.set()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self._open.discard(fd)
        if not self._open:
            self.closed.set()

    def process_exited(self) -> None:
        self.exited.set()
        self.over.set()


def _kill(group: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
