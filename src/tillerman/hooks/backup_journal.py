"""Journal of files before hooks are installed, synced to disk before a file is changed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import msgspec

from tillerman.core.errors import ConfigError
from tillerman.core.json_fields import Table
from tillerman.paths import private_folder

LOCK_TIMEOUT = 1.0  # seconds: a repair holds the lock for milliseconds only


class BackupRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    agent: str
    file: str  # with symbolic links resolved
    original: bytes | None = None  # None: there was no file
    written: bytes
    entries: dict[str, Table] = {}  # our entries by event; empty if the whole file is ours
    frame: Table = {}
    folders: tuple[str, ...] = ()  # created for it, outermost first
    comments: bool = False
    stays: bool = False  # until it is removed by name; otherwise as long as its owner runs


class BackupJournal:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def records(self) -> list[BackupRecord]:
        """All readable records; an incomplete one belongs to a change that was never started."""
        found = []
        with contextlib.suppress(FileNotFoundError):
            for path in sorted(self._folder.glob("*.json")):
                with contextlib.suppress(OSError, msgspec.MsgspecError):
                    found.append(msgspec.json.decode(path.read_bytes(), type=BackupRecord))
        return found

    def get(self, file: Path) -> BackupRecord | None:
        return next((one for one in self.records() if one.file == str(file)), None)

    def write(self, record: BackupRecord) -> None:
        put(self._path(Path(record.file), "json"), msgspec.json.encode(record), 0o600)

    def drop(self, record: BackupRecord) -> None:
        self._path(Path(record.file), "json").unlink(missing_ok=True)
        sync_folder(self._folder)

    @contextlib.contextmanager
    def held(self, file: Path, patience: float = LOCK_TIMEOUT) -> Iterator[None]:
        """Locks the file against other tillerman processes; raises if it stays locked too long.

        The kernel releases the lock when the process ends in any way.
        """
        private_folder(self._folder)
        lock = os.open(self._path(file, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if not _locked(lock, patience):
                owner = os.pread(lock, 32, 0).decode("ascii", "replace").strip()
                raise ConfigError(
                    f"another tillerman (process {owner or 'unknown'}) has hooks in {file}",
                    hint="wait for its session to end",
                )
            os.truncate(lock, 0)
            os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
            yield
        finally:
            os.close(lock)

    def _path(self, file: Path, suffix: str) -> Path:
        return self._folder / f"{sha256(os.fsencode(file)).hexdigest()[:24]}.{suffix}"


def _locked(lock: int, patience: float) -> bool:
    until = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= until:
                return False
            time.sleep(0.02)


def put(file: Path, data: bytes, mode: int | None = None) -> None:
    """Writes a file atomically and syncs it; an existing file keeps its mode and owner."""
    draft = draft_of(file)
    draft.unlink(missing_ok=True)  # left by a tillerman that was killed
    found = file.stat() if file.exists() else None
    made = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    with os.fdopen(made, "wb") as out:
        if found:
            os.fchmod(made, found.st_mode & 0o7777)
            if (found.st_uid, found.st_gid) != (os.geteuid(), os.getegid()):
                with contextlib.suppress(PermissionError):
                    os.fchown(made, found.st_uid, found.st_gid)
        elif mode is not None:
            os.fchmod(made, mode)
        out.write(data)
        out.flush()
        os.fsync(made)
    draft.replace(file)
    sync_folder(file.parent)


def draft_of(file: Path) -> Path:
    return file.with_name(f".{file.name}.tillerman")


def sync_folder(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
