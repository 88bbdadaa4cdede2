"""Runs a short command without blocking, with limits on time and output size."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MOST = 4 << 20  # bytes of stdout that are stored
_LAST_WORDS = 16 << 10  # of stderr
_LINGERING = 1.0  # seconds to wait for its pipes, or for its end after a kill


class CommandMissing(Exception):
    """The command cannot be started."""


class CommandTimeout(Exception):
    """The command exceeded its time limit and was killed."""


@dataclass(frozen=True)
class CommandOutput:
    code: int
    out: bytes
    err: bytes = b""  # its end
    cut: bool = False  # it wrote more than is stored, and was killed then

    @property
    def complaint(self) -> str:
        """Returns the last line of stderr."""
        lines = self.err.decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else f"it exited with {self.code}"


async def query(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    seconds: float,
    most: int = MOST,
) -> CommandOutput:
    """Runs a command until it exits; other holders of its pipes get only a short time."""
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
    except asyncio.CancelledError:  # it may already run, and have started others
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
        return listener.output(transport.get_returncode())
    except TimeoutError:
        raise CommandTimeout(f"{Path(argv[0]).name} took longer than {seconds:g} s") from None
    finally:
        await _end(transport, listener)


async def _end(transport: asyncio.SubprocessTransport, listener: _Listener) -> None:
    """Kills the command and its process group."""
    _kill(transport.get_pid())
    with suppress(TimeoutError):
        async with asyncio.timeout(_LINGERING):
            await listener.exited.wait()
    transport.close()


class _Listener(asyncio.SubprocessProtocol):
    """Stores the beginning of stdout and the end of stderr."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._out = bytearray()
        self._err = b""
        self._open = {1, 2}
        self.cut = False
        self.over = asyncio.Event()  # it exited, or wrote too much
        self.exited = asyncio.Event()
        self.closed = asyncio.Event()

    def output(self, code: int | None) -> CommandOutput:
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
