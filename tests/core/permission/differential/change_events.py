"""Names that were written, made, moved or removed in between, even if nothing of it is left."""

from __future__ import annotations

import ctypes
import os
import struct
from typing import NamedTuple

_LIBC = ctypes.CDLL(None, use_errno=True)
_MODIFY, _MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x2, 0x40, 0x80, 0x100, 0x200
_ATTRIBUTES = 0x4
_OF_FOLDER, _LOST = 0x40000000, 0x4000 | 0x8000 | 0x2000  # overflow, end of a watch, unmount
_NAMED = _MODIFY | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE
_MASK = _NAMED | _ATTRIBUTES
_HEADER = struct.Struct("iIII")


class Events(NamedTuple):
    names: set[str]
    any: bool  # attributes included
    folders_differ: bool  # perhaps: attributes of a folder were set, or events are missing


class ChangeEvents:
    """One inotify instance for all lines: to close one waits for the kernel, 20 ms."""

    def __init__(self) -> None:
        self._fd = _LIBC.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        self._directories: dict[int, str] = {}

    def watch(self, directories: list[str]) -> None:
        """Begin anew with these; what is made in directories made later shows in the tree itself."""
        self._directories = {
            _LIBC.inotify_add_watch(self._fd, path.encode(), _MASK): path for path in directories
        }
        self.take()

    def take(self) -> Events:
        """Since the watch began, or this was called last."""
        found: set[str] = set()
        happened = folders_differ = False
        while True:
            try:
                events = os.read(self._fd, 65536)
            except BlockingIOError:
                return Events(found, happened, folders_differ)
            at, happened = 0, True
            while at < len(events):
                watch, mask, _, length = _HEADER.unpack_from(events, at)
                at += _HEADER.size
                name = events[at : at + length].rstrip(b"\0")
                at += length
                if mask & _LOST or (mask & _ATTRIBUTES and (mask & _OF_FOLDER or not name)):
                    folders_differ = True
                if name and mask & _NAMED and watch in self._directories:
                    found.add(f"{self._directories[watch]}/{os.fsdecode(name)}")
