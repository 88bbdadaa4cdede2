"""Starts shells without a copy of this process: a fork of Python costs more than most lines do."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
from collections.abc import Mapping

from tests.core.permission.differential import namespace

_LIBC = ctypes.CDLL(None, use_errno=True)
_OPAQUE = 1024  # bytes: more than any libc needs for its attributes or file actions
_SIGNAL_MASK_BYTES = 128
_SET_SIGNAL_DEFAULTS, _NEW_SESSION = 0x04, 0x80
_NOT_STARTED = 126 << 8  # as the status of a shell

PROCESSES, FILE_SIZE, CPU_SECONDS = 200, 1 << 20, 2
# The kernel sees this address where a shell is executed: the exec log leaves it out.
PATH = ctypes.create_string_buffer(64)


def limit() -> None:
    """What this process starts, and itself; the processor's time is limited for each shell."""
    resource.setrlimit(resource.RLIMIT_NPROC, (PROCESSES, PROCESSES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_SIZE, FILE_SIZE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


class ShellStarter:
    """With the limits of `limit`, no capabilities, and nothing to read or to print to."""

    def __init__(self, directory: str, environment: Mapping[str, str]) -> None:
        limit()
        namespace.drop_capabilities()  # of programs: this process keeps its own
        self._directory = directory
        words = [f"{name}={value}".encode() for name, value in environment.items()]
        self._environment = (ctypes.c_char_p * (len(words) + 1))(*words, None)
        self._attributes = ctypes.create_string_buffer(_OPAQUE)
        self._actions = ctypes.create_string_buffer(_OPAQUE)
        signals = ctypes.create_string_buffer(_SIGNAL_MASK_BYTES)
        _LIBC.sigemptyset(signals)
        for one in (signal.SIGPIPE, signal.SIGXFSZ):
            _LIBC.sigaddset(signals, int(one))
        _LIBC.posix_spawnattr_init(self._attributes)
        _LIBC.posix_spawnattr_setsigdefault(self._attributes, signals)
        flags = ctypes.c_short(_SET_SIGNAL_DEFAULTS | _NEW_SESSION)
        _LIBC.posix_spawnattr_setflags(self._attributes, flags)
        _LIBC.posix_spawn_file_actions_init(self._actions)
        null = os.open("/dev/null", os.O_RDWR)
        for fd in range(3):
            _LIBC.posix_spawn_file_actions_adddup2(self._actions, null, fd)

    def start(self, shell: str, line: bytes) -> tuple[int, int]:
        """Its pid and 0, or 0 and the status if it cannot be started: a line can be too long."""
        PATH.value = f"/bin/{shell}".encode()
        words = (ctypes.c_char_p * 4)(shell.encode(), b"-c", line, None)
        pid = ctypes.c_int(0)
        os.chdir(self._directory)
        failed = _LIBC.posix_spawn(
            *(ctypes.byref(pid), PATH, self._actions, self._attributes, words, self._environment)
        )
        os.chdir("/")
        if failed:
            return 0, _NOT_STARTED
        resource.prlimit(pid.value, resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
        return pid.value, 0
