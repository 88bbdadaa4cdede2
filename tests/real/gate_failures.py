"""The twelve ways to break a gate, for each channel of permission requests.

In each the policy would allow the call, or nobody has answered yet: only the broken gate blocks the
call that creates the marker. What a channel does not have cannot break: `NOT_THERE` has the reason.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

from tests.real.gate_stand import Stand
from tests.real.gate_tap import COPIES
from tillerman.core.events import PermissionRequested, RequestAnswered
from tillerman.core.tools import ToolClass
from tillerman.hooks.connection import HookLimits
from tillerman.hooks.socket_folder import KEY, SOCKET
from tillerman.sessions.permissions.open_requests import MOST_OPEN

Channel = Literal["hook", "pipe"]
CHANNELS: Mapping[str, Channel] = {
    "cursor": "hook",
    "codex": "hook",
    "copilot": "hook",
    "claude": "pipe",
    "claude-agent-acp": "pipe",
    "gemini": "pipe",
    "qwen": "pipe",
    "opencode": "pipe",
}
TWELVE = (
    "shim missing", "shim killed", "shim crashed", "shim stopped", "garbage", "wrong schema",
    "socket gone", "socket squatted", "wrong token", "server overloaded", "clock jump",
    "harness killed",
)  # fmt: skip
_NO_SHIM = "the CLI itself asks, over a pipe to the harness"
NOT_THERE: Mapping[tuple[Channel, str], str] = {
    ("pipe", "shim missing"): _NO_SHIM,
    ("pipe", "shim killed"): _NO_SHIM,
    ("pipe", "shim crashed"): _NO_SHIM,
    ("pipe", "socket squatted"): "a pipe has no name by which somebody could take its place",
}
MAX_WAIT = 12.0  # seconds that a CLI may wait on a harness that was stopped
SETTLING = 4.0  # seconds after an answer that it cannot use
LATE = 6.0  # seconds until a request is denied
NOBODY = 65534

Play = Callable[[Stand, ToolClass], Awaitable[None]]


class Failure(NamedTuple):
    """`play` breaks the gate, makes the call, and asserts that the CLI requested it."""

    play: Play
    approve: str = "auto"
    request: float | None = None
    tapped: bool = False
    shifted: bool = False
    ends: bool = False  # the harness, or its session


# -- the shim, its socket and its server -----------------------------------------------------------


async def shim_missing(stand: Stand, kind: ToolClass) -> None:
    await stand.begin(kind, held=True)
    with _moved_away(stand.shim):
        await _goes_on(stand)


async def socket_gone(stand: Stand, kind: ToolClass) -> None:
    await stand.begin(kind, held=True)
    with _moved_away(stand.hooks / SOCKET):
        await _goes_on(stand)


async def wrong_token(stand: Stand, kind: ToolClass) -> None:
    """One of the two, alternating: no request arrives, or the answer is rejected."""
    for known in (False, True):
        await stand.begin(kind, held=True)
        key = stand.hooks / KEY
        right = key.read_bytes()
        ask, answer = right.split()
        key.write_bytes(b"%b %b\n" % ((ask, b"0" * 64) if known else (b"0" * 64, answer)))
        try:
            await _goes_on(stand)
        finally:
            key.write_bytes(right)
        assert not stand.marks.left(kind)


async def garbage(stand: Stand, kind: ToolClass) -> None:
    await stand.begin(kind, held=True)
    async with impostor(stand, "garbage"):
        await _goes_on(stand)


async def wrong_schema(stand: Stand, kind: ToolClass) -> None:
    await stand.begin(kind, held=True)
    async with impostor(stand, "wrong schema"):
        await _goes_on(stand)


async def socket_squatted(stand: Stand, kind: ToolClass) -> None:
    await stand.begin(kind, held=True)
    async with impostor(stand, "sound", NOBODY):
        await _goes_on(stand)


async def shim_killed(stand: Stand, kind: ToolClass) -> None:
    await _strike_shim(stand, kind, signal.SIGKILL)
    await _refused(stand)


async def shim_crashed(stand: Stand, kind: ToolClass) -> None:
    await _strike_shim(stand, kind, signal.SIGSEGV)
    await _refused(stand)


async def shim_stopped(stand: Stand, kind: ToolClass) -> None:
    """The answer arrives while it is stopped: the CLI would soon continue without it."""
    await _strike_shim(stand, kind, signal.SIGSTOP)
    await stand.rest()
    assert stand.bypassed, stand.log


async def server_overloaded(stand: Stand, kind: ToolClass) -> None:
    """As many clients connect as the server has places; in time they count as stopped shims."""
    await stand.begin(kind, held=True)
    here = str(stand.hooks / SOCKET)
    link = stand.folder / "s"  # paths of sockets are short
    link.symlink_to(here)
    async with contextlib.AsyncExitStack() as crowd:
        for _ in range(HookLimits().connections):
            one = socket.socket(socket.AF_UNIX)
            crowd.callback(one.close)
            await asyncio.to_thread(one.connect, str(link))
        stand.release()
        await stand.rest()
    link.unlink()
    assert stand.bypassed or stand.side.went_on(stand.name), stand.log


async def _strike_shim(stand: Stand, kind: ToolClass, number: signal.Signals) -> None:
    """Sends the signal while it waits: the harness is stopped until then."""
    await stand.begin(kind, held=True)
    stand.send(signal.SIGSTOP)
    try:
        stand.release()
        await stand.until(stand.shims, "no shim asks")
        for shim in stand.shims():
            os.kill(shim, number)
    finally:
        stand.send(signal.SIGCONT)


async def _goes_on(stand: Stand) -> None:
    stand.release()
    await _refused(stand)


async def _refused(stand: Stand) -> None:
    """Asserts that the call was made, and that the model got an error."""
    await stand.rest()
    assert stand.side.went_on(stand.name), stand.log


@contextmanager
def _moved_away(file: Path) -> Iterator[None]:
    place = file.rename(file.with_name("aside"))
    try:
        yield
    finally:
        place.rename(file)


@asynccontextmanager
async def impostor(stand: Stand, manner: str, user: int | None = None) -> AsyncIterator[None]:
    """Replaces the server; it must have received the request."""
    words = [str(stand.hooks), manner, *([str(user)] if user is not None else [])]
    with _moved_away(stand.hooks / SOCKET):
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, Path(__file__).with_name("gate_impostor.py"), *words),
            cwd=stand.folder,
            stdout=subprocess.PIPE,
        )
        try:
            assert process.stdout and await process.stdout.readline() == b"ready\n"
            yield
            assert (stand.folder / "met").read_bytes(), "nobody asked the impostor"
        finally:
            process.kill()
            await process.wait()


# -- the pipe --------------------------------------------------------------------------------------


def corrupted(mode: str) -> Play:
    async def play(stand: Stand, kind: ToolClass) -> None:
        """The answer was to allow it, and does not arrive as sent."""
        tap = _tap(stand)
        for note in ("asked", "spoiled"):
            (tap / note).unlink(missing_ok=True)
        (tap / "mode").write_text(mode)
        await stand.begin(kind)
        await stand.until((tap / "spoiled").exists, "nothing was to be spoiled")
        await stand.event(RequestAnswered)
        assert {one.answer.option for one in stand.of(RequestAnswered)} == {"allow"}
        with contextlib.suppress(AssertionError):
            await stand.until(lambda: stand.rests, "", SETTLING)

    return play


async def harness_stopped(stand: Stand, kind: ToolClass) -> None:
    """Stops it with the request in the pipe, for as long as a test can wait; then kills it."""
    asked = _tap(stand) / "asked"
    await stand.begin(kind, held=True)
    asked.unlink(missing_ok=True)
    stand.send(signal.SIGSTOP)
    stand.release()
    await stand.until(asked.exists, "it does not ask")
    await asyncio.sleep(MAX_WAIT)
    assert not stand.marks.left(kind)
    await stand.kill()


async def crowd(stand: Stand, kind: ToolClass) -> None:
    """More requests are open than a session stores: the real one is denied."""
    assert COPIES > MOST_OPEN
    (_tap(stand) / "mode").write_text("crowd")
    await stand.begin(kind)
    await stand.event(RequestAnswered)
    denied = stand.of(RequestAnswered)[0]
    assert (denied.answer.option, denied.surface) == ("deny", "guard.requests")
    with contextlib.suppress(AssertionError):
        await stand.until(lambda: stand.rests, "", SETTLING)


def _tap(stand: Stand) -> Path:
    return stand.folder.with_name(f"{stand.folder.name}-tap")


# -- whatever the channel --------------------------------------------------------------------------


async def clock_jump(stand: Stand, kind: ToolClass) -> None:
    """Shifts the clock by a year in all processes while a request is open; then back."""
    await stand.begin(kind)
    await stand.event(PermissionRequested)
    begin = asyncio.get_running_loop().time()
    shifted = stand.folder / "shifted"
    shifted.touch()
    try:
        await asyncio.sleep(LATE / 2)
        assert stand.of(RequestAnswered) == []
    finally:
        shifted.unlink()
    await stand.event(RequestAnswered)
    assert asyncio.get_running_loop().time() - begin > LATE * 0.8
    assert {(one.answer.option, one.by) for one in stand.of(RequestAnswered)} == {
        ("deny", "timeout")
    }
    await stand.rest()


async def harness_killed(stand: Stand, kind: ToolClass) -> None:
    """Kills it with the request open: nobody will answer it."""
    await stand.begin(kind)
    await stand.event(PermissionRequested)
    assert stand.of(RequestAnswered) == []
    await stand.kill()


_JUMP = Failure(clock_jump, approve="ask", request=LATE, shifted=True)
_KILL = Failure(harness_killed, approve="ask", ends=True)
FAILURES: Mapping[Channel, Mapping[str, Failure]] = {
    "hook": {
        "shim missing": Failure(shim_missing),
        "shim killed": Failure(shim_killed),
        "shim crashed": Failure(shim_crashed),
        "shim stopped": Failure(shim_stopped, ends=True),
        "garbage": Failure(garbage),
        "wrong schema": Failure(wrong_schema),
        "socket gone": Failure(socket_gone),
        "socket squatted": Failure(socket_squatted),
        "wrong token": Failure(wrong_token),
        "server overloaded": Failure(server_overloaded, ends=True),
        "clock jump": _JUMP,
        "harness killed": _KILL,
    },
    "pipe": {
        "shim stopped": Failure(harness_stopped, tapped=True, ends=True),
        "garbage": Failure(corrupted("garbage"), tapped=True, ends=True),
        "wrong schema": Failure(corrupted("wrong schema"), tapped=True, ends=True),
        "socket gone": Failure(corrupted("closed"), tapped=True, ends=True),
        "wrong token": Failure(corrupted("wrong id"), tapped=True, ends=True),
        "server overloaded": Failure(crowd, approve="ask", tapped=True, ends=True),
        "clock jump": _JUMP,
        "harness killed": _KILL,
    },
}
