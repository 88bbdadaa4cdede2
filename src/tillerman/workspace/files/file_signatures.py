"""Detects changes in a folder without git, by size, time and hashes of small files."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tillerman.core.events import FileChange
from tillerman.workspace.files.access.own_files import open_files
from tillerman.workspace.files.file_names import SKIPPED, shown

MOST_FILES = 50_000
HASHED_BYTES = 16 << 20
HASHED_FILE_BYTES = 1 << 20


class FileSignature(NamedTuple):
    size: int
    modified: int  # ns
    mode: int
    inode: int


@dataclass
class FolderSnapshot:
    root: Path
    files: dict[str, FileSignature] = field(default_factory=dict)
    hashes: dict[str, bytes] = field(default_factory=dict)
    captured_at: int = 0
    whole: bool = True  # False: a limit was reached before all files were scanned

    def close(self) -> None:
        """Does nothing: it holds only memory."""


def signature(path: Path) -> FileSignature | None:
    """Returns the signature of a file; None if it does not exist."""
    try:
        status = path.lstat()
    except OSError:
        return None
    return FileSignature(status.st_size, status.st_mtime_ns, status.st_mode, status.st_ino)


def file_clock() -> int:
    """Returns the time of the clock that stamps files, which lags behind the system clock."""
    with tempfile.TemporaryFile() as file:
        return os.fstat(file.fileno()).st_ctime_ns


def capture(root: Path, seconds: float, *, most: int = MOST_FILES) -> FolderSnapshot:
    snapshot = FolderSnapshot(root, captured_at=file_clock())
    until, room = time.monotonic() + seconds, HASHED_BYTES
    for path, found in _walk(root):
        if len(snapshot.files) >= most or time.monotonic() > until:
            snapshot.whole = False
            break
        snapshot.files[path] = found
        if found.size <= min(HASHED_FILE_BYTES, room):
            room -= found.size
            digest = _hash(root / path)
            if digest:
                snapshot.hashes[path] = digest
    return snapshot


def compare(snapshot: FolderSnapshot, seconds: float) -> Iterator[FileChange]:
    until = time.monotonic() + seconds
    for path, before in snapshot.files.items():
        now = signature(snapshot.root / path)
        if now is None:
            yield FileChange(shown(path), "deleted")
        elif now != before and not _same_content(snapshot, path, before, now):
            yield FileChange(shown(path), "modified")
    for seen, (path, found) in enumerate(_walk(snapshot.root)):
        if seen >= MOST_FILES * 2 or time.monotonic() > until:
            return
        if path not in snapshot.files and (snapshot.whole or _younger(snapshot, path)):
            yield FileChange(shown(path), "added", _lines(snapshot.root / path, found), 0)


def _walk(root: Path) -> Iterator[tuple[str, FileSignature]]:
    """Yields files and links below `root` with relative paths; links are not followed.

    Files that this process has open are left out. Its store may lie below `root`: to open and close
    it once more would release the locks of the store.
    """
    folders, own = [""], open_files()
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(root / folder) as entries:
                for entry in entries:
                    path = f"{folder}/{entry.name}" if folder else entry.name
                    if entry.is_dir(follow_symlinks=False):
                        if entry.name not in SKIPPED:
                            folders.append(path)
                        continue
                    if entry.inode() in own:
                        continue
                    found = signature(root / path)
                    if found and (stat.S_ISREG(found.mode) or stat.S_ISLNK(found.mode)):
                        yield path, found
        except OSError:
            continue  # removed, or not readable


def _hash(path: Path) -> bytes | None:
    try:
        if path.is_symlink():
            return os.fsencode(path.readlink())
        return hashlib.blake2b(path.read_bytes(), digest_size=16).digest()
    except OSError:
        return None


def _same_content(
    snapshot: FolderSnapshot, path: str, before: FileSignature, now: FileSignature
) -> bool:
    known = snapshot.hashes.get(path)
    if known is None or (now.size, now.mode) != (before.size, before.mode):
        return False
    return _hash(snapshot.root / path) == known


def _younger(snapshot: FolderSnapshot, path: str) -> bool:
    try:
        return (snapshot.root / path).lstat().st_ctime_ns >= snapshot.captured_at
    except OSError:
        return False


def _lines(path: Path, found: FileSignature) -> int | None:
    if not stat.S_ISREG(found.mode) or found.size > HASHED_FILE_BYTES:
        return None
    try:
        data = path.read_bytes()
    except OSError:
        return None
    if b"\0" in data:
        return None
    return data.count(b"\n") + bool(data and not data.endswith(b"\n"))
