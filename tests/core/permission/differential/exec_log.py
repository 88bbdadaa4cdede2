"""Logs every execve below this process: seccomp hands each one to us before it happens."""

from __future__ import annotations

import ctypes
import fcntl
import os
import platform
import struct
from typing import NamedTuple

_LIBC = ctypes.CDLL(None, use_errno=True)
_SYSCALLS = {  # seccomp, execve, execveat, audit architecture
    "x86_64": (317, 59, 322, 0xC000003E),
    "aarch64": (277, 221, 281, 0xC00000B7),
}
_SET_MODE_FILTER, _NEW_LISTENER = 1, 8
_RECEIVE, _SEND = 0xC0502100, 0xC0182101
_CONTINUE = 1
_ALLOW, _NOTIFY = 0x7FFF0000, 0x7FC00000
_PR_SET_NO_NEW_PRIVS = 38
_MOST_ARGUMENTS, _LONGEST = 64, 4096


class Attempt(NamedTuple):
    pid: int
    path: str
    argv: tuple[str, ...]


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def listen(own: int) -> int:
    """From now on every execve of this process's children waits for `answer`. The listener's fd.

    `own`: the address of a path that only this process executes, while it waits itself.
    """
    seccomp, execve, execveat, arch = _SYSCALLS[platform.machine()]
    code = [
        (0x20, 0, 0, 4),  # load the architecture
        (0x15, 0, 7, arch),
        (0x20, 0, 0, 0),  # load the syscall's number
        (0x15, 6, 0, execveat),
        (0x15, 0, 4, execve),
        (0x20, 0, 0, 16),  # load both halves of the first argument, the path's address
        (0x15, 0, 3, own & 0xFFFFFFFF),
        (0x20, 0, 0, 20),
        (0x15, 0, 1, own >> 32),
        (0x06, 0, 0, _ALLOW),
        (0x06, 0, 0, _NOTIFY),
    ]
    raw = b"".join(struct.pack("HBBI", *line) for line in code)
    program = _Program(len(code), raw)
    _LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    fd: int = _LIBC.syscall(seccomp, _SET_MODE_FILTER, _NEW_LISTENER, ctypes.byref(program))
    if fd < 0:
        raise OSError(ctypes.get_errno(), "no seccomp listener")
    os.set_inheritable(fd, False)
    return fd


def receive(listener: int) -> tuple[int, Attempt | None]:
    """The id to answer, and what is about to be executed where it could still be read."""
    buffer = bytearray(80)
    fcntl.ioctl(listener, _RECEIVE, buffer)
    id, pid, _, nr, _, _, *args = struct.unpack("QIIiIQ6Q", buffer)
    at = nr == _SYSCALLS[platform.machine()][2]
    try:
        memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
    except OSError:
        return id, None
    try:
        path = _text(memory, args[1] if at else args[0])
        argv = _texts(memory, args[2] if at else args[1])
        if at and not path:
            path = os.readlink(f"/proc/{pid}/fd/{args[0]}")
        return id, Attempt(pid, path, argv)
    except OSError:
        return id, None
    finally:
        os.close(memory)


def answer(listener: int, id: int) -> None:
    """Let it go on."""
    try:
        fcntl.ioctl(listener, _SEND, struct.pack("QqiI", id, 0, 0, _CONTINUE))
    except FileNotFoundError:
        return  # it was killed meanwhile


def _texts(memory: int, address: int) -> tuple[str, ...]:
    if not address:
        return ()
    found = []
    for at in range(_MOST_ARGUMENTS):
        (pointer,) = struct.unpack("Q", os.pread(memory, 8, address + 8 * at))
        if not pointer:
            break
        found.append(_text(memory, pointer))
    return tuple(found)


def _text(memory: int, address: int) -> str:
    found = b""
    while len(found) < _LONGEST:
        page = 4096 - (address + len(found)) % 4096
        part = os.pread(memory, min(page, 256), address + len(found))
        head, nul, _ = part.partition(b"\0")
        found += head
        if nul or not part:
            break
    return found.decode(errors="surrogateescape")
