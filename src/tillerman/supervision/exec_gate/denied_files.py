"""Recognizes denied programs under another name: hard links and copies."""

# ruff: noqa: PTH207  # paths are bytes here

from __future__ import annotations

import glob
import os
import stat

from tillerman.supervision.exec_gate.readings import LOADER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from tillerman.supervision.exec_gate.caller_files import CallerFile

_MANY_NAMES = 8  # a file with more names than this is a multi-call binary such as busybox
_MOST_COMPARED = 4096
_CHUNK = 1 << 16
_LOADERS = (b"/lib*/ld-linux*.so*", b"/lib*/ld-musl-*.so*", b"/lib/*/ld-linux*.so*")


class DeniedFiles:
    """The files of denied programs, from PATH or from an absolute path.

    A modified copy is not recognized.
    """

    def __init__(self, names: Iterable[bytes], path: bytes) -> None:
        self._names: dict[tuple[int, int], list[bytes]] = {}
        self._sizes: dict[int, list[tuple[bytes, bytes]]] = {}  # size -> (name, path)
        self._compared: dict[tuple[int, ...], list[bytes]] = {}
        folders = list(dict.fromkeys(one for one in path.split(b":") if one.startswith(b"/")))
        for name, place in _places(frozenset(names), folders):
            self._add(name, place)
        for name in names:
            if b"/" in name:
                self._add(name, os.path.realpath(name))
        for pattern in _LOADERS:
            for place in glob.iglob(pattern):
                self._add(LOADER, os.path.realpath(place))

    def _add(self, name: bytes, path: bytes) -> None:
        try:
            status = os.lstat(path)
        except OSError:
            return
        if stat.S_ISREG(status.st_mode):  # symlinks are skipped; their target has its own name
            self._names.setdefault((status.st_dev, status.st_ino), []).append(name)
            self._sizes.setdefault(status.st_size, []).append((name, path))

    def names_of(self, file: CallerFile) -> list[bytes]:
        """Returns the names of the denied programs that this file is, or is a copy of."""
        if names := self._names.get(file.identity):
            return names
        alike = self._sizes.get(file.status.st_size)
        if not alike:
            return []
        version = file.version
        if version not in self._compared:
            if len(self._compared) >= _MOST_COMPARED:
                self._compared.clear()
            copies = [name for name, path in alike if _same_content(file, path)]
            self._compared[version] = copies
        return self._compared[version]


def _places(wanted: frozenset[bytes], folders: list[bytes]) -> list[tuple[bytes, bytes]]:
    """Finds the wanted names in the folders, except for multi-call binaries."""
    inodes: dict[int, int] = {}
    found: list[tuple[bytes, bytes, int]] = []
    for folder in folders:
        try:
            entries = os.scandir(folder)
        except OSError:
            continue
        with entries:
            for entry in entries:
                inode = entry.inode()
                inodes[inode] = inodes.get(inode, 0) + 1
                if entry.name in wanted:
                    found.append((entry.name, entry.path, inode))
    return [(name, path) for name, path, inode in found if inodes[inode] <= _MANY_NAMES]


def _same_content(file: CallerFile, path: bytes) -> bool:
    try:
        other = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        one = file.open()
        try:
            while part := os.read(other, _CHUNK):
                if part != os.read(one, len(part)):
                    return False
            return True
        finally:
            os.close(one)
    finally:
        os.close(other)
