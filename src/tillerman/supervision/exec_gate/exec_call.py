"""Reads an execve call from its caller's memory: path, arguments and directory."""

from __future__ import annotations

import errno
import os

from tillerman.supervision.exec_gate import seccomp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tillerman.supervision.exec_gate.seccomp import SeccompNotification

AT_FDCWD = -100
_AT_EMPTY_PATH = 0x1000
_PAGE = 4096
_MOST_PAGES = 1024
_LONGEST_PATH = 4096
_MOST_ARGUMENTS = 100_000
_MOST_BYTES = 4 * 1024 * 1024  # of all arguments; the kernel accepts at most 6 MB


class ExecCall:
    """One execve call. `cut`: there are more or longer arguments than were read."""

    def __init__(
        self, pid: int, directory: int, path: bytes, argv: list[bytes], *, cut: bool, empty: bool
    ) -> None:
        self.pid = pid
        self.directory = directory  # a descriptor of the caller, or AT_FDCWD
        self.path = path
        self.argv = argv
        self.cut = cut
        self.by_descriptor = empty and not path


def open_memory(pid: int) -> int:
    return os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)


def read_call(call: SeccompNotification, memory_file: int) -> ExecCall:
    """Decodes a call from the caller's open memory file. Raises OSError if it cannot be read."""
    if seccomp.is_execveat(call):
        directory = _signed(call.args[0])
        path, arguments, flags = call.args[1], call.args[2], call.args[4]
    else:
        directory, path, arguments, flags = AT_FDCWD, call.args[0], call.args[1], 0
    memory = CallerMemory(memory_file)
    name = memory.string(path, _LONGEST_PATH)
    if name is None:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
    argv, cut = _arguments(memory, arguments, seccomp.pointer_size(call))
    empty = bool(flags & _AT_EMPTY_PATH)
    return ExecCall(call.pid, directory, name, argv, cut=cut, empty=empty)


def _arguments(memory: CallerMemory, at: int, size: int) -> tuple[list[bytes], bool]:
    argv: list[bytes] = []
    left = _MOST_BYTES
    if not at:
        return argv, False
    while len(argv) < _MOST_ARGUMENTS:
        for pointer in memory.pointers(at, size):
            if not pointer:
                return argv, False
            word = memory.string(pointer, left)
            if word is None:
                return argv, True
            argv.append(word)
            left -= len(word) + 1
            at += size
    return argv, True


def _signed(value: int) -> int:
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


class CallerMemory:
    """Memory of another process, read and cached by page: arguments lie close together."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._pages: dict[int, bytes] = {}

    def string(self, at: int, most: int) -> bytes | None:
        """Reads up to the next NUL; None when it is longer than `most`."""
        parts: list[bytes] = []
        length = 0
        while True:
            page = self._page(at // _PAGE)
            start = at % _PAGE
            end = page.find(b"\0", start)
            part = page[start:] if end < 0 else page[start:end]
            length += len(part)
            if length > most:
                return None
            parts.append(part)
            if end >= 0:
                return parts[0] if len(parts) == 1 else b"".join(parts)
            if len(page) < _PAGE:
                raise OSError(errno.EFAULT, os.strerror(errno.EFAULT))
            at += len(part)

    def pointers(self, at: int, size: int) -> Any:
        """Reads the pointers from here to the end of the page."""
        page = self._page(at // _PAGE)
        start = at % _PAGE
        if start % size:  # not aligned: one at a time
            data = self._bytes(at, size)
            return (int.from_bytes(data, "little"),)
        return memoryview(page)[start : len(page) - len(page) % size].cast(
            "Q" if size == 8 else "I"
        )

    def _bytes(self, at: int, count: int) -> bytes:
        page, start = self._page(at // _PAGE), at % _PAGE
        if start + count > _PAGE:
            page += self._page(at // _PAGE + 1)
        data = page[start : start + count]
        if len(data) < count:
            raise OSError(errno.EFAULT, os.strerror(errno.EFAULT))
        return data

    def _page(self, number: int) -> bytes:
        page = self._pages.get(number)
        if page is None:
            try:
                page = os.pread(self._file, _PAGE, number * _PAGE)
            except OverflowError:
                raise OSError(errno.EFAULT, os.strerror(errno.EFAULT)) from None
            if not page:
                raise OSError(errno.EFAULT, os.strerror(errno.EFAULT))
            if len(self._pages) >= _MOST_PAGES:
                self._pages.clear()
            self._pages[number] = page
        return page
