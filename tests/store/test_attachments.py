"""Attachments are stored as long as a session uses them."""

from __future__ import annotations

import hashlib

import pytest

from tests.store.store_samples import AT, WAIT, row
from tillerman.core.errors import SessionNotFound, StoreDamaged
from tillerman.store.attachments import AttachmentStore
from tillerman.store.catalog import Catalog
from tillerman.store.database import Database

PICTURE = bytes(range(256)) * 4000


@pytest.fixture(autouse=True)
def sessions(catalog: Catalog) -> None:
    for name in ("one", "two"):
        catalog.create(row(name)).result(WAIT)


def test_bytes_come_back_by_their_hash(attachments: AttachmentStore) -> None:
    name = attachments.put("one", PICTURE).result(WAIT)
    assert name == hashlib.sha256(PICTURE).hexdigest()
    assert attachments.get(name) == PICTURE
    empty = attachments.put("one", b"").result(WAIT)
    assert attachments.get(empty) == b""
    assert attachments.get("0" * 64) is None


def test_the_same_bytes_are_stored_once_until_the_last_user_is_removed(
    attachments: AttachmentStore, catalog: Catalog, database: Database
) -> None:
    name = attachments.put("one", PICTURE).result(WAIT)
    attachments.put("one", PICTURE).result(WAIT)
    attachments.put("two", PICTURE).result(WAIT)
    catalog.fork("two", "three", created_at=AT).result(WAIT)
    assert database.query("SELECT count(*) FROM attachments") == [(1,)]
    for session in ("one", "two"):
        catalog.delete(session).result(WAIT)
        assert attachments.get(name) == PICTURE
    catalog.delete("three").result(WAIT)
    assert attachments.get(name) is None


def test_bytes_need_a_session(attachments: AttachmentStore) -> None:
    with pytest.raises(SessionNotFound):
        attachments.put("nobody", b"x").result(WAIT)


def test_changed_bytes_are_not_returned_as_the_attachment(
    attachments: AttachmentStore, database: Database
) -> None:
    name = attachments.put("one", b"as it was").result(WAIT)
    database.write(lambda c: c.execute("UPDATE attachments SET data = x'00'")).result(WAIT)
    with pytest.raises(StoreDamaged, match="has changed"):
        attachments.get(name)
