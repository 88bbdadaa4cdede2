"""Seccomp filter that sends execve and execveat to a listener, and the listener's ioctls."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import struct


class SeccompNotification:
    """A system call that waits for an answer. `pid`: of the thread, as this process sees it."""

    __slots__ = ("arch", "args", "id", "number", "pid")

    def __init__(self, id: int, pid: int, number: int, arch: int, args: list[int]) -> None:
        self.id = id
        self.pid = pid
        self.number = number
        self.arch = arch
        self.args = args


_X32 = 0x40000000  # a bit in the number: the x32 ABI, which has 4-byte pointers

# per machine: audit architecture, numbers of execve, numbers of execveat
MACHINES = {
    "x86_64": ((0xC000003E, (59, _X32 | 520), (322, _X32 | 545)), (0x40000003, (11,), (358,))),
    "aarch64": ((0xC00000B7, (221,), (281,)), (0x40000028, (11,), (387,))),
}
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_64_BIT = (0xC000003E, 0xC00000B7)

_PR_SET_NO_NEW_PRIVS = 38
_SET_MODE_FILTER = 1
_SPEC_ALLOW, _NEW_LISTENER, _WAIT_KILLABLE = 1 << 2, 1 << 3, 1 << 5
_RECEIVE, _SEND, _ID_VALID = 0xC0502100, 0xC0182101, 0x40082102
_CONTINUE = 1
_NOTIFICATION = struct.Struct("=QIIiIQ6Q")
_RESPONSE = struct.Struct("=QqiI")
_EMPTY = bytes(_NOTIFICATION.size)

_LOAD, _IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_NUMBER, _ARCH = 0, 4  # offsets in seccomp_data
_ALLOW, _NOTIFY, _KILL = 0x7FFF0000, 0x7FC00000, 0x80000000

_libc = ctypes.CDLL(None, use_errno=True)


def unsupported() -> str | None:
    """Returns why this machine does not support the filter; None when it does."""
    machine = os.uname()
    if machine.sysname != "Linux":
        return "only available on Linux"
    if machine.machine not in MACHINES:
        return f"there is no filter for {machine.machine}, only for {' and '.join(MACHINES)}"
    return None


def program(machine: str) -> bytes:
    """Builds the filter: execve and execveat of every ABI go to the listener.

    All other calls are allowed.
    """
    steps: list[tuple[int, int, int, int]] = [(_LOAD, 0, 0, _ARCH)]
    for arch, *numbers in MACHINES[machine]:
        block: list[tuple[int, int, int, int]] = [(_LOAD, 0, 0, _NUMBER)]
        for number in (one for group in numbers for one in group):
            block += [(_IF_EQUAL, 0, 1, number), (_RETURN, 0, 0, _NOTIFY)]
        block.append((_RETURN, 0, 0, _ALLOW))
        steps += [(_IF_EQUAL, 0, len(block), arch), *block]
    steps.append((_RETURN, 0, 0, _KILL))
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


# built before any fork: every program needs it
_MACHINE = os.uname().machine
_PROGRAM = program(_MACHINE) if _MACHINE in MACHINES else b""


def install(*, no_new_privileges: bool) -> int:
    """Filters this process and its descendants; returns the listener, which closes on exec.

    With `no_new_privileges` that flag is set if the kernel requires it, that is without the
    capability CAP_SYS_ADMIN. Raises OSError EBUSY if an outer filter already has a listener.
    """
    try:
        return _install()
    except OSError as error:
        if error.errno != errno.EACCES or not no_new_privileges:
            raise
    if _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0:
        raise _error()
    return _install()


def _install() -> int:
    machine, steps = _MACHINE, _PROGRAM
    buffer = ctypes.create_string_buffer(steps, len(steps))
    header = struct.pack("@HP", len(steps) // 8, ctypes.addressof(buffer))
    for flags in (_NEW_LISTENER | _SPEC_ALLOW | _WAIT_KILLABLE, _NEW_LISTENER | _SPEC_ALLOW):
        number = ctypes.c_long(_SECCOMP[machine])
        listener: int = _libc.syscall(number, _SET_MODE_FILTER, ctypes.c_ulong(flags), header)
        if listener >= 0:
            return listener
        if ctypes.get_errno() != errno.EINVAL:
            break
    raise _error()


def _error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))


# -- the listener --------------------------------------------------------------------------------


def receive(listener: int) -> SeccompNotification | None:
    """Returns the next call; None when its process was killed meanwhile."""
    buffer = bytearray(_EMPTY)
    try:
        fcntl.ioctl(listener, _RECEIVE, buffer)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.EINTR):
            return None
        raise
    id, pid, _, number, arch, _, *args = _NOTIFICATION.unpack(buffer)
    return SeccompNotification(id, pid, number, arch, args)


def is_waiting(listener: int, id: int) -> bool:
    """Returns whether the caller still waits; if not, its pid may have been reused."""
    try:
        fcntl.ioctl(listener, _ID_VALID, struct.pack("=Q", id))
    except OSError:
        return False
    return True


def respond(listener: int, id: int, code: int) -> None:
    """Lets the call continue, or fails it with an errno. The caller may have ended."""
    response = bytearray(_RESPONSE.pack(id, 0, -code, 0 if code else _CONTINUE))
    try:
        fcntl.ioctl(listener, _SEND, response)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.EINPROGRESS):
            raise


def is_execveat(call: SeccompNotification) -> bool:
    return any(
        call.number in numbers
        for machine in MACHINES.values()
        for arch, _, numbers in machine
        if arch == call.arch
    )


def pointer_size(call: SeccompNotification) -> int:
    return 8 if call.arch in _64_BIT and not call.number & _X32 else 4
