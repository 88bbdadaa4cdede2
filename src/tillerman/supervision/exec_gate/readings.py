"""Determines the command lines that an execve call amounts to, for matching with rules.

A file can run under many names: through a link, as a script that names its interpreter, or through
the dynamic loader. Each of them is one reading of the call.
"""

from __future__ import annotations

import errno
import os
import re
import stat

from tillerman.supervision.exec_gate.caller_files import CallerFile, CallerFiles
from tillerman.supervision.exec_gate.exec_call import AT_FDCWD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from tillerman.supervision.exec_gate.denied_files import DeniedFiles
    from tillerman.supervision.exec_gate.exec_call import ExecCall

_HEAD = 256  # bytes that the kernel inspects
_MOST_HEADS = 4096
_DEEPEST = 8  # the kernel follows 5 interpreters; the loader adds more
_ELF = b"\x7fELF"
_LOADER = re.compile(rb"(ld(64|-linux[\w-]*|-musl-[\w-]+|-[\d.]+)?|libc\.musl-[\w-]+)\.so(\.\d+)?")
_MANY_PROGRAMS = (b"busybox", b"toybox")
LOADER = b"ld.so"
_LOADER_VALUES = frozenset({
    b"--library-path", b"--inhibit-rpath", b"--audit", b"--preload", b"--argv0",
    b"--glibc-hwcaps-prepend", b"--glibc-hwcaps-mask",
})  # fmt: skip


class Unnamed(Exception):
    """A file without a name, so that the program cannot be identified."""

    def __str__(self) -> str:
        return "its file no longer exists, so the program is unknown"


class Reading:
    """One command line that the call amounts to."""

    def __init__(self, name: bytes, arguments: Sequence[bytes]) -> None:
        self.name = name
        self.arguments = arguments

    @property
    def words(self) -> tuple[bytes, ...]:
        return (self.name, *self.arguments)


class Readings:
    """Collects the readings of one call. `denied` recognizes denied programs under any name."""

    def __init__(self, call: ExecCall, files: CallerFiles, denied: DeniedFiles) -> None:
        self.found: list[Reading] = []
        self._call = call
        self._files = files
        self._denied = denied

    def read(self) -> list[Reading]:
        """Returns all readings. Raises OSError as the kernel would, or `Unnamed`."""
        call = self._call
        if call.by_descriptor:
            file = self._files.descriptor(call.directory)
            path = b"/dev/fd/%d" % call.directory
        elif call.directory == AT_FDCWD or call.path.startswith(b"/"):
            file, path = self._files.find(call.path), call.path
        else:
            file = self._files.find(call.path, f"fd/{call.directory}")
            path = b"/dev/fd/%d/%s" % (call.directory, call.path)
        self._add(file, path, call.argv or [b""], 0)
        return self.found

    def _add(self, file: CallerFile, path: bytes, argv: Sequence[bytes], depth: int) -> None:
        if depth > _DEEPEST:
            raise _error(errno.ELOOP)
        if not stat.S_ISREG(file.status.st_mode):
            raise _error(errno.EACCES)
        if not file.status.st_nlink and not self._is_running(file):
            raise Unnamed
        denied = self._denied.names_of(file)
        arguments = argv[1:]
        names = [argv[0].lstrip(b"-"), path, file.name, *denied]
        for name in dict.fromkeys(name for name in names if name):
            self.found.append(Reading(name, arguments))
        if file.name in _MANY_PROGRAMS:  # also as `busybox APPLET`: its shell runs applets itself
            self.found.append(Reading(file.name, [argv[0].rsplit(b"/", 1)[-1], *arguments]))
        head = _head(file)
        if head.startswith(b"#!"):
            if interpreter := _interpreter(head):
                program, *option = interpreter
                words = [program, *option, path, *arguments]
                self._add(self._files.find(program), program, words, depth + 1)
        elif head.startswith(_ELF) and (LOADER in denied or _is_loader(file.name, path)):
            self._add_loaded(arguments, depth)

    def _add_loaded(self, arguments: Sequence[bytes], depth: int) -> None:
        """Adds what `ld.so [OPTION]... PROGRAM [ARGUMENT]...` runs."""
        left = list(arguments)
        name = None
        while left and left[0].startswith(b"--"):
            option = left.pop(0)
            if option in _LOADER_VALUES and left:
                value = left.pop(0)
                name = value if option == b"--argv0" else name
        if left:
            argv = [name or left[0], *left[1:]]
            self._add(self._files.find(left[0]), left[0], argv, depth + 1)

    def _is_running(self, file: CallerFile) -> bool:
        """Returns whether the caller runs this file: a replaced program may restart itself."""
        running = self._files.running()
        return (running.st_dev, running.st_ino) == (file.status.st_dev, file.status.st_ino)


def _head(file: CallerFile) -> bytes:
    """Returns the bytes by which the kernel detects scripts; cached until the file changes."""
    version = file.version
    head = _heads.get(version)
    if head is None:
        number = file.open()
        try:
            head = os.pread(number, _HEAD, 0)
        finally:
            os.close(number)
        if not head.startswith(b"#!"):
            head = head[: len(_ELF)]
        if len(_heads) >= _MOST_HEADS:
            _heads.clear()
        _heads[version] = head
    return head


_heads: dict[tuple[int, ...], bytes] = {}


def _is_loader(*names: bytes) -> bool:
    return any(_LOADER.fullmatch(name.rsplit(b"/", 1)[-1]) for name in names)


def _interpreter(head: bytes) -> list[bytes]:
    """Parses a `#!` line into the program and its single argument, as the kernel does."""
    line = head[2:].split(b"\n", 1)[0].split(b"\0", 1)[0].strip(b" \t")
    parts = re.split(rb"[ \t]+", line, maxsplit=1)
    return [part for part in parts if part]


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))
