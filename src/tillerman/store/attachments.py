"""Stores attachments of prompts and results by their hash, as long as a session uses them."""

from __future__ import annotations

import hashlib
from concurrent.futures import Future

import apsw

from tillerman.store.database import Database
from tillerman.store.session_row import number_of


class AttachmentStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, session: str, data: bytes) -> Future[str]:
        """Stores the bytes for this session; their sha256 is their name in events."""
        name = hashlib.sha256(data).hexdigest()

        def work(connection: apsw.Connection) -> str:
            number = number_of(connection, session)
            connection.execute(
                "INSERT OR IGNORE INTO attachments (hash, data) VALUES (?, ?)", (name, data)
            )
            connection.execute(
                "INSERT OR IGNORE INTO attachment_uses (hash, session) VALUES (?, ?)",
                (name, number),
            )
            return name

        return self._database.write(work)

    def get(self, name: str) -> bytes | None:
        """Returns None when no session uses the attachment any more."""
        rows = self._database.query("SELECT data FROM attachments WHERE hash = ?", (name,))
        if not rows:
            return None
        data: bytes = rows[0][0]
        if hashlib.sha256(data).hexdigest() != name:
            raise self._database.damaged(f"attachment {name} has changed")
        return data


def drop_uses(connection: apsw.Connection, number: int) -> None:
    """Removes a session's uses of attachments; deletes attachments without another use."""
    connection.execute(
        "DELETE FROM attachments WHERE hash IN "
        "(SELECT hash FROM attachment_uses WHERE session = ?1) AND hash NOT IN "
        "(SELECT hash FROM attachment_uses WHERE session != ?1)",
        (number,),
    )
    connection.execute("DELETE FROM attachment_uses WHERE session = ?", (number,))
