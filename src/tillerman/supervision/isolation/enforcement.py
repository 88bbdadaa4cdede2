"""Applies resource limits, capabilities, Landlock and seccomp in the child right before exec.

Runs in a process that was just forked and has one thread. Nothing is undone on an error: a process
that could not apply everything must not continue to exec.
"""

# pathlib and contextlib would cost every start some milliseconds
# ruff: noqa: PTH208

from __future__ import annotations

import ctypes
import errno
import os
import resource
import stat
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Values that marshal supports: limits as (resource, value); capabilities that root keeps, or None;
# Landlock as (files, network, scoped, ((path, rights), …)) or None; a seccomp program or None; and
# files that bubblewrap expects to be open: (number, content).
Rules = tuple[
    tuple[tuple[int, int], ...],
    tuple[int, ...] | None,
    tuple[int, int, int, tuple[tuple[bytes, int], ...]] | None,
    bytes | None,
    tuple[tuple[int, bytes], ...],
]

_PR_CAPBSET_READ = 23
_PR_CAPBSET_DROP = 24
_PR_SET_NO_NEW_PRIVS = 38
_PR_SET_SECCOMP = 22
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_SECCOMP_MODE_FILTER = 2
_CAPABILITY_VERSION_3 = 0x20080522
_LANDLOCK_CREATE_RULESET, _LANDLOCK_ADD_RULE, _LANDLOCK_RESTRICT_SELF = 444, 445, 446
_PATH_BENEATH = 1
_PARENTS_OWN = (resource.RLIMIT_CORE, resource.RLIMIT_NPROC)  # limits that do not limit a keeper
_CLOSE_RANGE, _CLOSE_RANGE_CLOEXEC = 436, 4  # since Linux 5.11
_FOR_FILES = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15  # rights that apply to a single file

_libc = ctypes.CDLL(None, use_errno=True)


def enforce(rules: Rules | None) -> None:
    """Applies the rules. Raises OSError if any of them fails: then the command must not run."""
    if rules is None:
        return
    limits, capabilities, landlock, program, files = rules
    _close_on_exec()
    for number, content in files:
        _lay_open(number, content)
    for what, value in limits:
        _limit(what, value)
    if capabilities is not None:
        _keep_capabilities(capabilities)
    if landlock is not None or program is not None:
        _checked(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    if landlock is not None:
        _restrict(*landlock)
    if program is not None:
        _filter(program)


def is_only_limits(rules: Rules | None) -> bool:
    """Returns whether they can be applied to the parent of the program: only a few limits."""
    if rules is None:
        return True
    limits, capabilities, landlock, program, files = rules
    others = (capabilities, landlock, program)
    return (
        all(what in _PARENTS_OWN for what, _ in limits)
        and all(one is None for one in others)
        and not files
    )


def enforce_limits(rules: Rules | None) -> None:
    """Applies rules that are `is_only_limits` to the parent of a program that starts later."""
    for what, value in rules[0] if rules else ():
        _limit(what, value)


def _close_on_exec() -> None:
    """Marks open files close-on-exec: an inherited open folder would bypass all rules."""
    most = ctypes.c_uint(0xFFFFFFFF)
    if _libc.syscall(_CLOSE_RANGE, 3, most, _CLOSE_RANGE_CLOEXEC) == 0:
        return
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            try:
                os.set_inheritable(int(name), False)
            except OSError:
                continue  # the descriptor that listdir itself used


def _lay_open(number: int, content: bytes) -> None:
    """Creates an anonymous file with this content at that descriptor, which must be free."""
    try:
        os.fstat(number)
    except OSError:
        pass
    else:
        raise OSError(errno.EBUSY, f"file {number} is in use")
    made = os.memfd_create("tillerman", os.MFD_CLOEXEC)
    try:
        os.write(made, content)
        os.lseek(made, 0, os.SEEK_SET)
        os.dup2(made, number)
    finally:
        os.close(made)


def _limit(what: int, value: int) -> None:
    _, hard = resource.getrlimit(what)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(what, (value, value))


def _keep_capabilities(retained: tuple[int, ...]) -> None:
    """Drops capabilities of root, which regains at exec those in the bounding set."""
    if os.geteuid() != 0:
        return
    capability = 0
    while (held := _libc.prctl(_PR_CAPBSET_READ, capability, 0, 0, 0)) >= 0:  # until the last
        if held and capability not in retained:
            _checked(_libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0))
        capability += 1
    _checked(_libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0))
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    held = ctypes.create_string_buffer(24)
    _checked(_libc.capget(header, held))
    effective, permitted, _, effective2, permitted2, _ = struct.unpack("=6I", held.raw)
    none = struct.pack("=6I", effective, permitted, 0, effective2, permitted2, 0)
    _checked(_libc.capset(header, none))


def _restrict(files: int, network: int, scoped: int, places: tuple[tuple[bytes, int], ...]) -> None:
    handled = struct.pack("=QQQ", files, network, scoped)
    ruleset = _checked(_libc.syscall(_LANDLOCK_CREATE_RULESET, handled, len(handled), 0))
    try:
        for path, rights in places:
            _allow(ruleset, path, rights & files)
        _checked(_libc.syscall(_LANDLOCK_RESTRICT_SELF, ruleset, 0))
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: bytes, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # does not exist, or the user has no access: nothing to allow
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            rights &= _FOR_FILES
        rule = struct.pack("=Qi", rights, place)
        _checked(_libc.syscall(_LANDLOCK_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0))
    finally:
        os.close(place)


def _filter(program: bytes) -> None:
    steps = ctypes.create_string_buffer(program, len(program))
    # struct sock_fprog: the count, and the address, aligned as a pointer
    header = struct.pack("@HP", len(program) // 8, ctypes.addressof(steps))
    _checked(_libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, header, 0, 0))


def _checked(result: Any) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return int(result)
