"""The record of the running service: a lock that ends with its process, and where it listens."""

from __future__ import annotations

import fcntl
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from tillerman.core.errors import TillermanError, UsageError
from tillerman.paths import Paths, private_folder, write_whole

STOP_WITHIN = 30.0
LOCKED_WITHIN = 0.25


class ServiceRecord(msgspec.Struct, frozen=True):
    pid: int
    socket: str
    url: str  # empty without a port
    started_at: str
    version: str


def folder_of(paths: Paths) -> Path:
    return paths.state / "server"


@contextmanager
def held(paths: Paths) -> Iterator[None]:
    """Holds the lock: a second service is refused."""
    folder = private_folder(folder_of(paths))
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            _lock(lock)
        except BlockingIOError:
            found = _read(paths)
            raise UsageError(
                f"the service is already running{f' in process {found.pid}' if found else ''}",
                hint="`tillerman serve --status` shows it, `tillerman serve --stop` ends it",
            ) from None
        try:
            (folder / "service.json").unlink(missing_ok=True)  # of one that was killed
            yield
        finally:
            (folder / "service.json").unlink(missing_ok=True)
    finally:
        os.close(lock)


def _lock(lock: int) -> None:
    """Tries again for a moment: whoever looks if a service runs holds the lock meanwhile."""
    deadline = time.monotonic() + LOCKED_WITHIN
    while True:
        try:
            return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.005)


def write(paths: Paths, record: ServiceRecord) -> None:
    write_whole(folder_of(paths) / "service.json", msgspec.json.encode(record))


def running(paths: Paths) -> ServiceRecord | None:
    """The record of the running service; None if none runs, or it is still starting."""
    return _read(paths) if is_held(paths) else None


def stop(paths: Paths) -> None:
    """Ends the service, and waits until it is gone."""
    found = running(paths)
    if found is None:
        raise UsageError("the service is not running", hint="`tillerman serve` starts it")
    os.kill(found.pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_WITHIN
    while is_held(paths):
        if time.monotonic() > deadline:
            raise TillermanError(
                f"the service did not end within {STOP_WITHIN:g} s",
                hint=f"`kill -9 {found.pid}` ends it and its agents",
            )
        time.sleep(0.02)


def is_held(paths: Paths) -> bool:
    """Whether a service runs, or is starting."""
    try:
        lock = os.open(folder_of(paths) / "lock", os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(lock)


def _read(paths: Paths) -> ServiceRecord | None:
    try:
        data = (folder_of(paths) / "service.json").read_bytes()
    except FileNotFoundError:
        return None
    try:
        return msgspec.json.decode(data, type=ServiceRecord)
    except (msgspec.MsgspecError, UnicodeDecodeError):  # a damaged disk
        return None
