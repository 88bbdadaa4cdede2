"""The SQLite database: opens, migrates, writes in one thread, and reads in any thread."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

import apsw

from tillerman.core.errors import (
    StorageFull,
    StoreDamaged,
    StoreError,
    StoreReadOnly,
    TillermanError,
)
from tillerman.paths import make_private
from tillerman.store import migrations
from tillerman.store.consistency_check import (
    LogCheck,
    damaged_anywhere,
    damaged_list,
    damaged_schema,
)
from tillerman.store.damage_marker import DamageMarker, damaged
from tillerman.store.disk_reserve import DiskReserve
from tillerman.store.group_commit import Storage, Writer, explain, is_full
from tillerman.store.wal_reader import PAGE, log_of

T = TypeVar("T")

BUSY_MS = 10_000
HELD_DATA = b"held data\n"  # content of the lock file, once the store was created
OLDEST_SQLITE = (3, 51, 3)  # older versions can lose pages when two processes write and checkpoint

_DAMAGE = (apsw.CorruptError, apsw.NotADBError, UnicodeDecodeError)


class Database:
    """A store's database, one per process and file. All methods are thread-safe."""

    def __init__(
        self, path: Path, lock: int | None, writer: tuple[apsw.Connection, Writer] | None
    ) -> None:
        self.path = path
        self._lock = lock
        self._connection = writer[0] if writer else None
        self._writer = writer[1] if writer else None
        self._local = threading.local()
        self._readers: weakref.WeakSet[apsw.Connection] = weakref.WeakSet()  # of live threads
        self._closed = False

    @classmethod
    def open(cls, path: Path, *, read_only: bool = False) -> Database:
        """Opens or creates the store, and migrates its schema to the newest version.

        `read_only` changes nothing, not even the schema, and only requires that the file is
        readable: for a damaged store, or a store on a full disk.
        """
        _require_sqlite()
        path = path.absolute()
        if read_only:
            return cls._open_to_read(path)
        removed = not path.exists() and not log_of(path).exists()
        _make_private(path)
        lock, alone = _lock(path)
        try:
            if removed:
                os.ftruncate(lock, 0)
            if why := DamageMarker(path).why or _emptied(path, lock):
                raise damaged(path, why)
            reserve = DiskReserve(path.with_name(f"{path.name}.reserve"))
            connection = _connect(path, reserve, LogCheck(path) if alone else None)
            reserve.restore()
            os.pwrite(lock, HELD_DATA, 0)
            fcntl.flock(lock, fcntl.LOCK_SH)
            return cls(path, lock, (connection, Writer(connection, reserve, path)))
        except BaseException:
            os.close(lock)
            raise

    @classmethod
    def open_current(cls, path: Path) -> Database:
        """Opens the store read-only; refuses another schema than the newest, which it cannot
        query."""
        database = cls.open(path, read_only=True)
        found = migrations.version(database.read())
        if found != migrations.NEWEST:
            database.close()
            raise StoreReadOnly(
                f"{path} was written by an older tillerman (schema {found}) and is not writable",
                hint="make it writable, so that it can be migrated",
            )
        return database

    @classmethod
    def _open_to_read(cls, path: Path) -> Database:
        if not path.exists():
            raise StoreError(f"there is no store at {path}", hint="the first session creates it")
        lock = _lock_to_read(path)
        database = cls(path, lock, None)
        try:
            migrations.check(database.read(), str(path))
        except (apsw.Error, *_DAMAGE) as error:
            database.close()
            raise explain(error, path) from error
        except BaseException:
            database.close()
            raise
        return database

    def write(
        self,
        work: Callable[[apsw.Connection], T],
        *,
        prepare: Callable[[], None] | None = None,
        line: str | None = None,
        urgent: bool = False,
    ) -> Future[T]:
        """Runs `work` in the transaction of the next group; the future resolves after its COMMIT.

        `work` may run more than once, so it must only touch the database. `prepare` runs once in
        the writer's thread before the transaction. `urgent` work is tried even on a full disk,
        after all work that is queued in the same `line`.
        """
        if self._writer is None:
            future: Future[T] = Future()
            future.set_exception(_read_only(self.path))
            return future
        return self._writer.submit(work, prepare, line, urgent)

    def read(self) -> apsw.Connection:
        """Returns this thread's read-only connection."""
        if self._closed:
            raise StoreError(
                f"{self.path} is closed", hint="use it inside `async with tillerman.open()`"
            )
        connection: apsw.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = _connect_to_read(self.path)
            self._local.connection = connection
            self._readers.add(connection)
        return connection

    def query(self, sql: str, bindings: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """Returns all rows of a query; raises `StoreDamaged` for a damaged page."""
        return list(self.rows(sql, bindings))

    def rows(self, sql: str, bindings: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
        """Yields the rows of a query one by one, for long rows and readers that may stop early."""
        try:
            cursor = self.read().execute(sql, bindings)
            try:
                yield from cursor
            finally:
                cursor.close()
        except (*_DAMAGE, apsw.IOError, apsw.CantOpenError, apsw.BusyError) as error:
            raise explain(error, self.path) from error

    def damaged(self, why: str) -> StoreDamaged:
        """Returns the error for newly found damage, and marks the store as damaged."""
        return damaged(self.path, why)

    def check(self) -> str:
        """Returns the first error in any table, or an empty string. Reads the whole file."""
        try:
            return damaged_anywhere(self.read())
        except _DAMAGE as error:
            return str(error)

    @property
    def is_read_only(self) -> bool:
        return self._writer is None

    @property
    def storage(self) -> Storage:
        return self._writer.storage if self._writer else "ok"

    @property
    def failure(self) -> TillermanError | None:
        """Why writing is no longer possible; None while it is."""
        return self._writer.failure if self._writer else None

    def watch(self, callback: Callable[[Storage], None]) -> Callable[[], None]:
        """Calls back from the writer's thread when storage becomes full, ok or failed."""
        return self._writer.watch(callback) if self._writer else lambda: None

    def close(self) -> None:
        """Commits queued work and closes the file; work that cannot be committed fails."""
        if self._closed:
            return
        self._closed = True
        if self._writer:
            self._writer.close()
        for connection in tuple(self._readers):
            with contextlib.suppress(apsw.Error):  # a thread that still reads closes it at its end
                connection.close()
        if self._connection:
            self._connection.close()
        if self._lock is not None:
            os.close(self._lock)


def _require_sqlite() -> None:
    found = apsw.sqlite_lib_version()
    if tuple(int(part) for part in found.split(".")) < OLDEST_SQLITE:
        wanted = ".".join(map(str, OLDEST_SQLITE))
        raise StoreError(
            f"SQLite {found} can lose committed pages when two processes write",
            hint=f"upgrade the apsw package to {wanted} or later",
        )


def _make_private(path: Path) -> None:
    try:
        make_private(path.parent)
        if not path.exists():
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        # An existing file is never opened here: closing it would drop the locks of every connection
        # that this process has to it.
        elif path.stat().st_mode & 0o077:
            path.chmod(0o600)
        if not os.access(path, os.R_OK | os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise _cannot_open(path, error) from error


def _lock(path: Path) -> tuple[int, bool]:
    """Locks the lock file; returns also whether the lock is exclusive. Shared after opening."""
    file = path.with_name(f"{path.name}.lock")
    try:
        lock = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _cannot_open(file, error) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        fcntl.flock(lock, fcntl.LOCK_SH)
        return lock, False
    return lock, True


def _lock_to_read(path: Path) -> int | None:
    """Takes a shared lock; None where no lock file can be created, since nothing can be written."""
    try:
        lock, _ = _lock(path)
    except StoreReadOnly:
        try:
            lock = os.open(path.with_name(f"{path.name}.lock"), os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
    fcntl.flock(lock, fcntl.LOCK_SH)
    return lock


def _connect_to_read(path: Path) -> apsw.Connection:
    """Opens a read-only connection; as immutable where SQLite cannot create the log's index."""
    flags = apsw.SQLITE_OPEN_READONLY
    connection = apsw.Connection(str(path), flags=flags)
    try:
        _configure(connection)
        connection.pragma("schema_version")
    except (apsw.CantOpenError, apsw.ReadOnlyError):
        connection.close()
        log = log_of(path)
        if (log.exists() and log.stat().st_size) or os.access(path.parent, os.W_OK):
            raise
        name = f"{path.as_uri()}?immutable=1"
        connection = apsw.Connection(name, flags=flags | apsw.SQLITE_OPEN_URI)
        _configure(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _read_only(path: Path) -> StoreReadOnly:
    return StoreReadOnly(
        f"{path} is open read-only", hint="check the owner of the file and its folder"
    )


def _cannot_open(file: Path, error: OSError) -> StoreError:
    denied = error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)
    return (StoreReadOnly if denied else StoreError)(
        f"{file} cannot be opened: {error.strerror}",
        hint="check the owner of the file and its folder",
    )


def _emptied(path: Path, lock: int) -> str:
    """Detects a truncated file: SQLite treats an almost empty file as new, even if it held data."""
    before = path.stat().st_size < PAGE and os.pread(lock, len(HELD_DATA), 0) == HELD_DATA
    return "it is unexpectedly empty" if before else ""


def _connect(path: Path, reserve: DiskReserve, log_check: LogCheck | None) -> apsw.Connection:
    """Opens the writing connection; on a full disk, frees the reserve and retries."""
    connection = apsw.Connection(str(path))
    try:
        while True:
            try:
                _prepare(connection, path, log_check)
                return connection
            except apsw.Error as error:
                if not is_full(connection, error):
                    raise
                if not reserve.free():
                    raise StorageFull(
                        f"no space left to open {path}", hint="free a few megabytes on its disk"
                    ) from error
    except BaseException as error:
        connection.close()
        if isinstance(error, (*_DAMAGE, apsw.SQLError, apsw.ReadOnlyError)):
            raise damaged(path, str(error)) from error
        if isinstance(error, apsw.Error):
            raise explain(error, path) from error
        raise


def _prepare(connection: apsw.Connection, path: Path, log_check: LogCheck | None) -> None:
    # until the log is verified, closing must not checkpoint it into the database
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    _configure(connection)
    if not connection.pragma("page_count"):
        connection.pragma("page_size", PAGE)
    connection.pragma("journal_mode", "wal")
    connection.pragma("synchronous", "full")
    connection.pragma("wal_autocheckpoint", 0)
    connection.pragma("journal_size_limit", 64 * 1024 * 1024)
    connection.pragma("secure_delete", True)  # deleted data is unrecoverable, also by salvage
    if log_check and (why := log_check.damage(connection)):
        raise damaged(path, why)
    migrations.migrate(connection, str(path))
    if connection.readonly("main"):
        raise damaged(path, "its header marks it as read-only")
    if log_check and (why := damaged_schema(connection) or damaged_list(connection)):
        raise damaged(path, why)
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)


def _configure(connection: apsw.Connection) -> None:
    connection.set_busy_timeout(BUSY_MS)
    connection.pragma("temp_store", "memory")  # reads must work on a full disk
    connection.pragma("cell_size_check", True)
