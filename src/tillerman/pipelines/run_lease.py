"""Run lease: one process runs a pipeline run, by a lock that ends with its process."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa

_NAMESPACE = 0x7111  # of our advisory locks
_BOOT = "engine"


class FileLeases:
    """Locks on files in a folder of this machine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held: dict[str, int] = {}

    def take(self, run: str) -> bool:
        """Takes the lease of a run; False while another process has it."""
        if run in self._held:
            return True
        handle = self._open(run)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return False
        self._held[run] = handle
        return True

    def is_held(self, run: str) -> bool:
        """Whether any process has the lease now."""
        if run in self._held:
            return True
        path = self._folder / f"{run}.lock"
        if not path.exists():
            return False
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(handle)
        return False

    def valid(self, run: str) -> bool:
        """Whether this process still has the lease. A lock on a file cannot be lost."""
        return run in self._held

    def release(self, run: str) -> None:
        if (handle := self._held.pop(run, None)) is not None:
            os.close(handle)

    def forget(self, run: str) -> None:
        """Removes the file of a run that no process has."""
        if run not in self._held and not self.is_held(run):
            (self._folder / f"{run}.lock").unlink(missing_ok=True)

    def close(self) -> None:
        for run in list(self._held):
            self.release(run)

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Held while an engine starts: two that create a new database at once would collide."""
        handle = self._open(_BOOT)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def _open(self, name: str) -> int:
        path = self._folder / f"{name}.lock"
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


class PostgresLeases:
    """Advisory locks of one direct connection, which end with it."""

    def __init__(self, url: str) -> None:
        self._engine = sa.create_engine(url, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT")
        self._connection: sa.Connection | None = None
        self._held: set[str] = set()

    def take(self, run: str) -> bool:
        if run in self._held:
            return True
        if self._lock("SELECT pg_try_advisory_lock(:space, hashtext(:run))", run):
            self._held.add(run)
            return True
        return False

    def is_held(self, run: str) -> bool:
        if run in self._held:
            return True
        words = (
            "SELECT count(*) > 0 FROM pg_locks WHERE locktype = 'advisory' AND granted "
            "AND classid = :space AND objid = (hashtext(:run)::bigint & 4294967295)::oid "
            "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        )
        return self._lock(words, run)

    def valid(self, run: str) -> bool:
        """Whether this process still has the lease: its connection must have lived on."""
        if run not in self._held or self._connection is None:
            return False
        try:
            self._connection.execute(sa.text("SELECT 1"))
        except sa.exc.DBAPIError:
            self._held.clear()
            self._connection = None
            return False
        return True

    def release(self, run: str) -> None:
        if run in self._held:
            self._held.discard(run)
            self._lock("SELECT pg_advisory_unlock(:space, hashtext(:run))", run)

    def forget(self, run: str) -> None:
        """Nothing is left of an advisory lock."""

    def close(self) -> None:
        self._held.clear()
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._engine.dispose()

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Held while an engine starts and creates its tables."""
        with self._engine.connect() as connection:
            key = {"space": _NAMESPACE, "run": _BOOT}
            connection.execute(sa.text("SELECT pg_advisory_lock(:space, hashtext(:run))"), key)
            yield

    def _lock(self, words: str, run: str) -> bool:
        if self._connection is None:
            self._connection = self._engine.connect()
        values = {"space": _NAMESPACE, "run": run}
        return bool(self._connection.execute(sa.text(words), values).scalar())


Leases = FileLeases | PostgresLeases
