"""A separate process that works on a store: `python -m tests.store.store_child COMMAND PATH …`."""

from __future__ import annotations

import sys
from pathlib import Path

import apsw

from tests.store.store_samples import WAIT, received, row
from tillerman.store.catalog import Catalog
from tillerman.store.database import Database
from tillerman.store.event_log import EventLog


def append(path: Path, session: str, count: str) -> None:
    """Entries one by one or in small groups, like an agent's stream."""
    database = Database.open(path)
    Catalog(database).create(row(session)).result(WAIT)
    log = EventLog(database)
    first, size = 1, 1
    futures = []
    while first <= int(count):
        last = min(first + size - 1, int(count))
        futures.append(log.append(received(first, last, session=session)))
        first, size = last + 1, size % 7 + 1
        if len(futures) == 20:
            futures.pop(0).result(60)
    for future in futures:
        future.result(60)
    database.close()


def stream(path: Path, session: str) -> None:
    """Appends forever and prints each acknowledged number, starting after the last one."""
    database = Database.open(path)
    catalog, log = Catalog(database), EventLog(database)
    if not any(found.id == session for found in catalog.list()):
        catalog.create(row(session)).result(WAIT)
    last = log.last_seq(session)
    while True:
        log.append(received(last + 1, last + 5, session=session)).result(WAIT)
        last += 5
        print(last, flush=True)


class BrokenSync(apsw.VFS):
    """A disk whose fsync fails from the moment a file `broken` exists beside the store."""

    def __init__(self, flag: Path) -> None:
        self.flag = flag
        super().__init__("broken-sync", "unix")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        return BrokenFile(name, flags, self.flag)


class BrokenFile(apsw.VFSFile):
    def __init__(self, name: str | apsw.URIFilename | None, flags: list[int], flag: Path) -> None:
        self.flag = flag
        super().__init__("unix", name, flags)

    def xSync(self, flags: int) -> None:
        if self.flag.exists():
            raise apsw.exception_for(apsw.SQLITE_IOERR_FSYNC)
        super().xSync(flags)


def broken_sync(path: Path) -> None:
    """The effect of a failed fsync on the writes before, at and after it."""
    flag = path.with_name("broken")
    vfs = BrokenSync(flag)  # referenced: SQLite drops it with its last reference
    apsw.set_default_vfs("broken-sync")
    database = Database.open(path)
    Catalog(database).create(row()).result(WAIT)
    log = EventLog(database)
    log.append(received(1, 3)).result(WAIT)
    states: list[str] = []
    database.watch(states.append)
    flag.touch()
    print(log.append(received(4, 5)).exception(WAIT))
    flag.unlink()
    print(log.append(received(4, 5)).exception(WAIT))
    print(database.storage, states, log.last_seq("session"))
    database.close()
    del vfs


if __name__ == "__main__":
    _, command, path, *rest = sys.argv
    {"append": append, "stream": stream, "broken-sync": broken_sync}[command](Path(path), *rest)
