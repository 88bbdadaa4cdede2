"""Group commit: one writer thread, one transaction for all queued work, then acknowledgement."""

from __future__ import annotations

import errno
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import apsw

from tillerman.core.errors import StorageFull, StoreError, TillermanError
from tillerman.store.damage_marker import damaged
from tillerman.store.disk_reserve import DiskReserve

T = TypeVar("T")
Storage = Literal["ok", "full", "failed"]

WINDOW = 0.005  # seconds between commits under load; an idle store commits immediately
CHECKPOINT_PAGES = 4096  # pages of the write-ahead log: 16 MB
WAIT_PAGES = 16 * CHECKPOINT_PAGES  # above this the checkpoint waits for readers and writers
FIRST_RETRY, LAST_RETRY = 0.05, 2.0  # seconds, while the disk is full

_SYNC_FAILED = frozenset({apsw.SQLITE_IOERR_FSYNC, apsw.SQLITE_IOERR_DIR_FSYNC})

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class _Job:
    work: Callable[[apsw.Connection], Any]
    prepare: Callable[[], None] | None
    line: str | None  # jobs of one line run in order
    urgent: bool
    future: Future[Any]


class _Refused(Exception):
    """One job of the group raised; the group is retried without it."""

    def __init__(self, job: _Job, error: Exception) -> None:
        super().__init__(str(error))
        self.job = job
        self.error = error


def is_full(connection: apsw.Connection, error: apsw.Error) -> bool:
    """Whether more free space can resolve this error; never for a failed fsync."""
    if getattr(error, "extendedresult", 0) in _SYNC_FAILED:  # missing in apsw's stubs
        return False
    if isinstance(error, apsw.IOError | apsw.CantOpenError):
        return connection.system_errno in (errno.ENOSPC, errno.EDQUOT)
    return isinstance(error, apsw.FullError)


class Writer:
    """Owns the only writing connection.

    While the disk is full, only urgent work and the group in progress are tried. Other work waits,
    which gives backpressure to callers that wait for its acknowledgement. After an error that
    leaves the file in an unknown state (a failed fsync, a damaged page), all writes are refused
    until a restart.
    """

    def __init__(self, connection: apsw.Connection, reserve: DiskReserve, path: Path) -> None:
        self.storage: Storage = "ok"
        self.failure: TillermanError | None = None
        self._connection = connection
        self._reserve = reserve
        self._path = path
        self._jobs: deque[_Job] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._thread: threading.Thread | None = None
        self._watchers: list[Callable[[Storage], None]] = []
        self._committed_at = 0.0
        self._log_pages = 0
        connection.set_wal_hook(self._measure_log)

    def submit(
        self,
        work: Callable[[apsw.Connection], T],
        prepare: Callable[[], None] | None = None,
        line: str | None = None,
        urgent: bool = False,
    ) -> Future[T]:
        """Queues work. `work` may run more than once; `prepare` runs once, before the
        transaction."""
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()  # numbered log work cannot be cancelled
        with self._changed:
            if self.failure or self._closing:
                future.set_exception(
                    self.failure
                    or StoreError(
                        f"{self._path} is closed",
                        hint="use it inside `async with tillerman.open()`",
                    )
                )
                return future
            self._jobs.append(_Job(work, prepare, line, urgent, future))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="store", daemon=True)
                self._thread.start()
            self._changed.notify()
        return future

    def watch(self, callback: Callable[[Storage], None]) -> Callable[[], None]:
        """Calls back from the writer's thread when the storage changes; returns an unsubscriber."""
        self._watchers.append(callback)
        return lambda: self._watchers.remove(callback)

    def close(self) -> None:
        """Commits queued work, unless the disk is full, and ends the thread."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    # -- writer thread -----------------------------------------------------------------------------

    def _run(self) -> None:
        group: list[_Job] = []
        try:
            while group := self._gather():
                self._commit(self._prepared(group))
                self._checkpoint()
        except BaseException as error:
            self._fail(
                StoreError(
                    f"the writer of {self._path} stopped: {error!r}",
                    hint="later entries were not stored; start again, and see `tillerman doctor`",
                ),
                group,
            )
            raise

    def _gather(self) -> list[_Job]:
        """Waits for jobs and returns all of them; empty when the store closes."""
        if self.storage == "full" and (urgent := self._wait_for_space()):
            return urgent
        with self._changed:
            while not self._jobs and not self._closing:
                self._changed.wait()
        if (pause := self._committed_at + WINDOW - time.monotonic()) > 0:
            time.sleep(pause)
        with self._changed:
            group = list(self._jobs)
            self._jobs.clear()
        if self.storage == "full":
            self._give_up(group, self._full_error())
            return []
        return group

    def _wait_for_space(self) -> list[_Job]:
        """Returns urgent jobs and those before them in line; none if there is space or on close."""
        retry = FIRST_RETRY
        while not self._reserve.restore():
            with self._changed:
                if urgent := self._pop_urgent():
                    return urgent
                if self._closing:
                    return []
                self._changed.wait(retry)
            retry = min(2 * retry, LAST_RETRY)
        self._become("ok")
        return []

    def _pop_urgent(self) -> list[_Job]:
        lines = {job.line for job in self._jobs if job.urgent}
        group = [job for job in self._jobs if job.urgent or (job.line and job.line in lines)]
        self._jobs = deque(job for job in self._jobs if job not in group)
        return group

    def _prepared(self, group: list[_Job]) -> list[_Job]:
        ready = []
        for job in group:
            try:
                if job.prepare:
                    job.prepare()
            except Exception as error:
                job.future.set_exception(error)
            else:
                ready.append(job)
        return ready

    def _commit(self, group: list[_Job]) -> None:
        retry = FIRST_RETRY
        while group:
            try:
                results = self._transact(group)
            except _Refused as refused:
                group = [job for job in group if job is not refused.job]
                refused.job.future.set_exception(refused.error)
            except apsw.BusyError:
                if self._closing:
                    busy = StoreError(
                        f"another process has locked {self._path}",
                        hint="wait for that process, or end it",
                    )
                    return self._give_up(group, busy)
                _logger.warning("another process has locked %s; waiting", self._path)
            except apsw.Error as error:
                if not is_full(self._connection, error):
                    return self._fail(explain(error, self._path), group)
                if self._closing:
                    return self._give_up(group, self._full_error())
                if not self._reserve.free():
                    time.sleep(retry)
                    retry = min(2 * retry, LAST_RETRY)
                self._become("full")
            else:
                self._committed_at = time.monotonic()
                for job, result in zip(group, results, strict=True):
                    job.future.set_result(result)
                return None
        return None

    def _transact(self, group: list[_Job]) -> list[Any]:
        connection = self._connection
        try:
            connection.execute("BEGIN IMMEDIATE")
            results = []
            for job in group:
                try:
                    results.append(job.work(connection))
                except (apsw.ConstraintError, apsw.MismatchError, apsw.SQLError) as error:
                    raise _Refused(job, error) from error
                except apsw.Error:
                    raise
                except Exception as error:
                    raise _Refused(job, error) from error
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:  # on a full disk SQLite has already rolled back
                connection.execute("ROLLBACK")
            raise
        return results

    def _checkpoint(self) -> None:
        """Checkpoints explicitly, after acknowledging: SQLite's own hides failed fsyncs."""
        if self._log_pages < CHECKPOINT_PAGES or self.storage != "ok":
            return
        waits = self._log_pages >= WAIT_PAGES
        mode = apsw.SQLITE_CHECKPOINT_TRUNCATE if waits else apsw.SQLITE_CHECKPOINT_PASSIVE
        try:
            self._connection.wal_checkpoint(mode=mode)
        except (apsw.BusyError, apsw.LockedError):
            pass
        except apsw.Error as error:
            if not is_full(self._connection, error):
                self._fail(explain(error, self._path), [])

    def _measure_log(self, _connection: apsw.Connection, _schema: str, pages: int) -> int:
        self._log_pages = pages
        return apsw.SQLITE_OK

    # -- storage -----------------------------------------------------------------------------------

    def _become(self, storage: Storage) -> None:
        if storage != self.storage:
            self.storage = storage
            for callback in tuple(self._watchers):
                try:
                    callback(storage)
                except Exception:
                    _logger.exception("a watcher of %s failed", self._path)

    def _fail(self, failure: TillermanError, group: list[_Job]) -> None:
        with self._changed:
            self.failure = failure
            group = [*group, *self._jobs]
            self._jobs.clear()
        # pages that a failed fsync left unwritten must not be checkpointed into the database
        self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        self._give_up(group, failure)
        self._become("failed")

    def _give_up(self, group: list[_Job], error: TillermanError) -> None:
        for job in group:
            if not job.future.done():
                job.future.set_exception(error)

    def _full_error(self) -> StorageFull:
        return StorageFull(
            f"no space left for {self._path}",
            hint=f"free at least {max(1, self._reserve.size >> 20)} MB on its disk",
        )


def explain(error: Exception, path: Path) -> TillermanError:
    """Converts a SQLite error into a `TillermanError` with a hint."""
    match error:
        case apsw.CorruptError() | apsw.NotADBError() | UnicodeDecodeError():
            return damaged(path, str(error))
        case apsw.IOError():
            return StoreError(
                f"the disk under {path} failed: {str(error) or 'input/output error'}",
                hint="later entries were not stored; check the disk, then start again",
            )
        case apsw.ReadOnlyError() | apsw.PermissionsError() | apsw.CantOpenError():
            return StoreError(
                f"{path} cannot be written: {error}",
                hint="check the owner of the file and its folder",
            )
        case _:
            return StoreError(f"{path}: {error}", hint="`tillerman doctor` checks the store")
