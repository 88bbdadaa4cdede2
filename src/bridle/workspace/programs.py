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
_CHUNK = 64 << 10


class Missing(Exception):
    """It cannot be started."""


class Slow(Exception):
    """It took longer than it may, and was ended."""


@dataclass(frozen=True)
class Said:
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
) -> Said:
    try:
        child = await asyncio.create_subprocess_exec(
            *argv,
            cwd=cwd,
            env=dict(env),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise Missing(f"{argv[0]} cannot be started: {error.strerror}") from None
    assert child.stdout and child.stderr
    try:
        async with asyncio.timeout(seconds):
            errors = asyncio.ensure_future(_end(child.stderr))
            out, cut = await _beginning(child.stdout, most)
            if cut:
                _kill(child.pid)
            err = await errors
            return Said(await child.wait(), out, err, cut)
    except TimeoutError:
        raise Slow(f"{Path(argv[0]).name} took longer than {seconds:g} s") from None
    finally:
        _kill(child.pid)  # and whatever it left behind
        errors.cancel()
        await child.wait()


async def _beginning(stream: asyncio.StreamReader, most: int) -> tuple[bytes, bool]:
    parts, size = [], 0
    while piece := await stream.read(_CHUNK):
        parts.append(piece)
        size += len(piece)
        if size > most:
            return b"".join(parts)[:most], True
    return b"".join(parts), False


async def _end(stream: asyncio.StreamReader) -> bytes:
    kept = b""
    while piece := await stream.read(_CHUNK):
        kept = (kept + piece)[-_LAST_WORDS:]
    return kept


def _kill(group: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
