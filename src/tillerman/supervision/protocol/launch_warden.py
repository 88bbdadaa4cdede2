"""Starts the warden process before anything heavy is imported."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from tillerman.supervision.protocol.channel import frame, rights

_FITS_THE_SOCKET = 64 * 1024  # bytes that the socket buffers before the warden reads
LEVELS = ("auto", "namespace", "cgroup", "subreaper", "group")

# The package's own __init__ may import anything: the warden gets an empty one instead. Unlike with
# a script run by path, its modules still come from the bytecode cache.
_BOOT = (
    "import sys; package = type(sys)('tillerman'); package.__path__ = [sys.argv.pop(1)];"
    " sys.modules['tillerman'] = package;"
    " from tillerman.supervision.{module} import main; main(*sys.argv[1:])"
)


# Rules of a session that the kernel enforces, as plain values for marshal. "exec" holds the
# settings of `exec_gate`, "mounts" those of `mounts`; absent keys are not enforced.
Enforcement = Mapping[str, Any]
NOT_ENFORCED: Enforcement = MappingProxyType({})


class Early(NamedTuple):
    """A program requested from the warden before a caller could wait for it."""

    argv: list[str]
    cwd: str
    env: dict[str, str]
    enforcement: Enforcement
    pipes: tuple[int, int, int]  # the harness ends


class Launched(NamedTuple):
    """A warden that is starting. `WardenClient.attach` takes it over.

    Until then the fields are private to it. Dropping it unattached ends the process, because its
    end of the socket closes.
    """

    process: subprocess.Popen[bytes] | None  # None: another harness started it
    control: socket.socket
    lifeline: int
    folder: Path
    early: Early | None = None
    lingers: bool = False


def command(module: str, *arguments: str) -> list[str]:
    package = str(Path(__file__).resolve().parents[2])
    return [sys.executable, "-I", "-S", "-c", _BOOT.format(module=module), package, *arguments]


def launch(*, level: str = "auto", records: Path, marker: str, linger: float = 0.0) -> Launched:
    """Starts a warden and returns at once.

    `marker` is its unique name, of letters, digits, - and _. With `linger` it keeps lasting
    programs for that many seconds after its harness has ended, until `WardenClient.rejoin`.
    """
    if level not in LEVELS:
        raise ValueError(f"{level!r} is not a supervision level: {', '.join(LEVELS)}")
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,100}", marker):
        raise ValueError(f"{marker!r} is not a marker: letters, digits, - and _ only")
    folder = Path(records).absolute() / marker
    ours, theirs = socket.socketpair()
    held, lifeline = os.pipe()
    try:
        process = subprocess.Popen(
            command(
                "warden.warden",
                *(str(theirs.fileno()), str(held), level, str(folder)),
                *([str(linger)] if linger else []),
            ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=(theirs.fileno(), held),
            start_new_session=True,
            # it needs only its own libraries, none of the other variables or their secrets
            env={k: v for k, v in os.environ.items() if k.startswith(("LD_", "DYLD_"))},
        )
    except BaseException:
        ours.close()
        os.close(lifeline)
        raise
    finally:
        theirs.close()
        os.close(held)
    return Launched(process, ours, lifeline, folder, lingers=linger > 0)


def spawn_early(
    launched: Launched,
    argv: Sequence[str],
    *,
    cwd: Path | str,
    env: Mapping[str, str],
    enforcement: Enforcement = NOT_ENFORCED,
) -> Launched:
    """Requests the first program while the warden starts; `WardenClient.spawn` returns it."""
    message = frame((*spawn_message(1, argv, cwd, env), dict(enforcement)))
    if len(message) > _FITS_THE_SOCKET:
        return launched
    ours, theirs = open_pipes()
    try:
        launched.control.sendmsg([message], rights(theirs))
    except ConnectionError:  # it has ended already; `WardenClient.attach` will report why
        for number in ours:
            os.close(number)
        return launched
    finally:
        for number in theirs:
            os.close(number)
    early = Early(list(argv), str(cwd), dict(env), enforcement, ours)
    return launched._replace(early=early)


def spawn_message(
    number: int, argv: Sequence[str], cwd: Path | str, env: Mapping[str, str]
) -> tuple[object, ...]:
    return (
        "spawn",
        number,
        [os.fsencode(word) for word in argv],
        os.fsencode(Path(cwd).absolute()),
        {os.fsencode(name): os.fsencode(value) for name, value in env.items()},
    )


def open_pipes() -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Opens three pipes: returns our non-blocking ends, and the program's ends."""
    its_input, our_input = os.pipe()
    our_output, its_output = os.pipe()
    our_error, its_error = os.pipe()
    for number in (our_input, our_output, our_error):
        os.set_blocking(number, False)
    return (our_input, our_output, our_error), (its_input, its_output, its_error)
