from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tillerman.store.attachments import AttachmentStore
from tillerman.store.catalog import Catalog
from tillerman.store.database import Database
from tillerman.store.event_log import EventLog
from tillerman.store.search import Search


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "tillerman.db"


@pytest.fixture
def database(path: Path) -> Iterator[Database]:
    database = Database.open(path)
    yield database
    database.close()


@pytest.fixture
def log(database: Database) -> EventLog:
    return EventLog(database)


@pytest.fixture
def catalog(database: Database) -> Catalog:
    return Catalog(database)


@pytest.fixture
def search(database: Database) -> Search:
    return Search(database)


@pytest.fixture
def attachments(database: Database) -> AttachmentStore:
    return AttachmentStore(database)
