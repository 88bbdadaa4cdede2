"""A level that the machine does not support is refused with a hint, and no command runs."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.supervision.confined_run import Place, Ran, Refused

# Runs a program under a kernel that answers one call by itself: with this error, or with success
# and nothing done. Its words: the call's number, what its first argument is or -1, the error.
LYING_KERNEL = """
import ctypes, os, struct, sys
number, first, error, *words = sys.argv[1:]
steps = [
    (0x20, 0, 0, 0), (0x15, 0, 3, int(number)), (0x20, 0, 0, 16),
    (0x15, 0, 1, int(first)) if first != "-1" else (0x15, 0, 0, 0),
    (6, 0, 0, 0x50000 | int(error)), (6, 0, 0, 0x7FFF0000),
]
program = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, struct.pack("@HP", len(steps), ctypes.addressof(program)), 0, 0) == 0
os.execvp(words[0], words)
"""
PRCTL = {"x86_64": 157, "aarch64": 167}
CREATE_RULESET, RESTRICT_SELF = 444, 446
SET_SECCOMP = 22


@pytest.fixture
def installed() -> None:
    if not Path("/usr/bin/bwrap").exists():
        pytest.skip("bubblewrap is not installed")


def namespace(place: Place, *flags: str) -> list[str]:
    """A separate namespace, in which something can be removed without affecting others."""
    mapped = ["--user", "--map-root-user"] if place.stage.user or os.geteuid() else []
    return ["unshare", *mapped, *flags]


def possible(place: Place, around: Sequence[str]) -> None:
    ran = subprocess.run([*around, "true"], capture_output=True, user=place.stage.user)
    if ran.returncode:
        pytest.skip(f"cannot be staged here: {ran.stderr!r}")


def refused(place: Place, level: str, around: Sequence[str]) -> Refused:
    possible(place, around)
    reported = place.ask(level, "sh", "-c", "echo ran > ran", around=around)
    assert isinstance(reported, Refused), reported
    assert list(place.workspace.iterdir()) == []
    assert reported.exit_code == 4
    assert reported.message.startswith(f"isolation level {level} is not available here: ")
    return reported


def test_without_bubblewrap_high_is_refused_and_other_levels_work(place: Place) -> None:
    hide = "for each in /usr/bin/bwrap /usr/local/bin/bwrap; do"
    hide += ' test ! -e $each || mount --bind /dev/null $each || exit; done; exec "$@"'
    around = [*namespace(place, "--mount"), "sh", "-c", hide, "sh"]
    reported = refused(place, "high", around)
    assert reported.message.endswith("bubblewrap (bwrap) is not installed")
    assert "install" in reported.hint
    assert "bubblewrap" in reported.hint
    assert isinstance(place.ask("medium", "true", around=around), Ran)


def test_without_user_namespaces_high_is_refused_with_the_switch(
    place: Place, installed: None
) -> None:
    close = 'echo 0 > /proc/sys/user/max_user_namespaces || exit; exec "$@"'
    around = ["unshare", "--user", "--map-root-user", "sh", "-c", close, "sh"]
    reported = refused(place, "high", around)
    assert "bwrap: " in reported.message
    assert reported.hint == "sysctl -w user.max_user_namespaces=15000"


def is_root(place: Place) -> bool:
    return place.stage.user is None and os.geteuid() == 0


def lying(place: Place, number: int, *, first: int = -1, error: int = 0) -> list[str]:
    return [place.stage.python, "-I", "-c", LYING_KERNEL, *map(str, (number, first, error))]


@pytest.mark.parametrize(
    ("number", "reason"),
    [(38, "no Landlock: Function not implemented"), (95, "Landlock is disabled")],
)
def test_without_landlock_medium_is_refused(place: Place, number: int, reason: str) -> None:
    reported = refused(place, "medium", lying(place, CREATE_RULESET, error=number))
    assert reported.message.endswith(reason)
    assert reported.hint


def test_a_kernel_that_claims_to_confine_and_does_not_is_detected(place: Place) -> None:
    reported = refused(place, "medium", lying(place, RESTRICT_SELF))
    assert reported.message.endswith(
        "a confined command could still write outside the workspace, read a secret outside,"
        " signal a process outside" + (", change a kernel setting" if is_root(place) else "")
    )


def test_a_kernel_that_claims_to_filter_and_does_not_is_detected(place: Place) -> None:
    if (number := PRCTL.get(os.uname().machine)) is None:
        pytest.skip("no filter for this machine")
    reported = refused(place, "medium", lying(place, number, first=SET_SECCOMP))
    assert reported.message.endswith(
        "a confined command could still send by UDP, connect to a socket outside"
    )


def with_bubblewrap(place: Place, text: str) -> list[str]:
    """Another program in its place, in a mount namespace."""
    (place.outside / "bwrap").write_text(f"#!/bin/sh\n{text}\n")
    (place.outside / "bwrap").chmod(0o755)
    place.give()
    swap = f'mount --bind {place.outside}/bwrap /usr/bin/bwrap || exit; exec "$@"'
    return [*namespace(place, "--mount"), "sh", "-c", swap, "sh"]


def test_a_bubblewrap_that_leaves_the_network_open_is_detected(
    place: Place, installed: None
) -> None:
    shutil.copy("/usr/bin/bwrap", place.outside / "real")
    drop = 'for word; do shift; test "$word" = --unshare-net || set -- "$@" "$word"; done'
    around = with_bubblewrap(place, f'{drop}\nexec {place.outside}/real "$@"')
    assert refused(place, "high", around).message.endswith(
        "a confined command could still connect by TCP, send by UDP, connect to an abstract socket"
    )


def test_an_outdated_bubblewrap_is_distinguished_from_a_forbidding_kernel(
    place: Place, installed: None
) -> None:
    reported = refused(
        place, "high", with_bubblewrap(place, "echo Unknown option --size >&2; exit 1")
    )
    assert reported.message.endswith("Unknown option --size")
    assert reported.hint == "install bubblewrap 0.8 or newer; use medium"
