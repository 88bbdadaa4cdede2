"""Stores with a changed byte or a missing end, and what a user then finds in them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.store.store_samples import WAIT, chunk, fill_open, received
from tillerman.core.errors import StoreDamaged, StoreNewer
from tillerman.core.events import Entry
from tillerman.store.attachments import AttachmentStore
from tillerman.store.catalog import Catalog
from tillerman.store.database import Database
from tillerman.store.event_log import EventLog
from tillerman.store.salvage import LOST, SalvageReport, salvage
from tillerman.store.search import Search

SESSIONS = tuple(f"session-{letter}" for letter in "abc")
COUNT = 120
FILES = ("tillerman.db", "tillerman.db-wal", "tillerman.db-shm")


@contextmanager
def quick_folder() -> Iterator[Path]:
    """In memory if possible: nothing here depends on a disk, and syncing one is slow."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)


def make(folder: Path) -> tuple[Path, Path]:
    """One store left by a killed process, with many log pages, and one closed properly."""
    live = folder / "live"
    database = Database.open(live / "tillerman.db")
    fill_open(database, SESSIONS, COUNT)
    AttachmentStore(database).put(SESSIONS[0], bytes(range(256)) * 40).result(WAIT)
    Search(database).index(SESSIONS[0], 1, [("user", "words to find")]).result(WAIT)
    killed = folder / "killed"
    shutil.copytree(live, killed)
    database.close()
    return killed, live


@contextmanager
def damaged_copy(template: Path, folder: Path) -> Iterator[Path]:
    copy = folder / "copy"
    shutil.copytree(template, copy)
    try:
        yield copy / "tillerman.db"
    finally:
        shutil.rmtree(copy)


def flip(file: Path, offset: int, mask: int = 0xFF) -> None:
    with file.open("r+b") as content:
        content.seek(offset)
        byte = content.read(1)[0]
        content.seek(offset)
        content.write(bytes([byte ^ mask]))


WANTED = {name: [chunk(seq, session=name) for seq in range(1, COUNT + 1)] for name in SESSIONS}


@dataclass(frozen=True)
class Found:
    """What a user finds who restarts tillerman when asked to."""

    report: SalvageReport | None
    logs: dict[str, list[Entry]]

    @property
    def lost(self) -> int:
        return sum(entry.event == LOST for log in self.logs.values() for entry in log)

    @property
    def silent_loss(self) -> str:
        """What is missing without a report; empty if nothing is."""
        if self.report is None:
            short = [name for name in SESSIONS if len(self.logs.get(name, ())) < COUNT]
            return f"entries of {short} are missing and nobody said so" if short else ""
        reported = (self.report.sessions, self.report.entries, self.report.lost_entries)
        entries = sum(map(len, self.logs.values())) - self.lost
        if reported != (len(self.logs), entries, self.lost):
            return f"{self.report} but {len(self.logs)}, {entries}, {self.lost}"
        return ""


def inspect_store(path: Path) -> Found:
    """Opens and reads everything; damage shows at once or while reading, and is repaired once."""
    try:
        return Found(None, _read(path))
    except StoreDamaged:
        report = salvage(path)
    return Found(report, _read(path))


def _read(path: Path) -> dict[str, list[Entry]]:
    database = Database.open(path)
    try:
        log, catalog = EventLog(database), Catalog(database)
        logs = {row.id: log.since(row.id, limit=10_000) for row in catalog.list()}
        for row in catalog.list():
            assert row.entries == len(logs[row.id])
            for seq in (1, COUNT // 2, COUNT):
                log.raw(row.id, seq)
        Search(database).search("words")
        catalog.open_requests()
        last = log.last_seq(SESSIONS[0])
        if last:
            log.append(received(last + 1, last + 1, session=SESSIONS[0])).result(WAIT)
        return logs
    finally:
        database.close()


def silent_loss_after(path: Path) -> str:
    """Empty if the store is intact, was repaired with a report, or was refused with a reason."""
    try:
        return inspect_store(path).silent_loss
    except StoreNewer as error:  # a flipped bit in the schema's number
        return "" if error.hint else "refused without a hint"
