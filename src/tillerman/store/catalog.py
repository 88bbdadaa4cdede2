"""The table of sessions: lists, finds, creates, updates, deletes and forks them."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, cast

import apsw
import msgspec

from tillerman.core.errors import SessionError, SessionNotFound
from tillerman.store.attachments import drop_uses
from tillerman.store.database import Database
from tillerman.store.fork_session import copy_session
from tillerman.store.row_codec import text
from tillerman.store.session_projection import TOUCHED
from tillerman.store.session_row import (
    SELECT,
    OpenRequest,
    SessionRow,
    bindable,
    from_values,
    insert,
    number_of,
)

CHANGEABLE = frozenset(
    {"title", "agent", "native_id", "model", "mode", "owner_socket", "owner_pid", "settings"}
)
LAST = "last"
DELETE_SLICE = 5_000  # entries per transaction


class Catalog:
    def __init__(self, database: Database) -> None:
        self._database = database

    # -- reading -----------------------------------------------------------------------------------

    def get(self, name: str, *, cwd: str | None = None) -> SessionRow:
        """Finds a session by id, by a unique prefix of its id, or by `last` (in folder `cwd`)."""
        if name == LAST:
            rows = self.list(cwd=cwd, limit=1)
            if not rows:
                raise SessionNotFound(name)
            return rows[0]
        found = self._rows("WHERE id = ?", (text(name),))
        if not found and name:
            found = self._rows(
                "WHERE substr(id, 1, length(?1)) = ?1 ORDER BY touched DESC LIMIT 5", (text(name),)
            )
        match found:
            case []:
                raise SessionNotFound(name)
            case [row]:
                return row
            case _:
                raise SessionError(
                    f"{name!r} matches several sessions",
                    hint=f"use more characters: {', '.join(row.id for row in found)}",
                )

    def list(
        self,
        *,
        cwd: str | None = None,
        agent: str | None = None,
        status: str | None = None,
        limit: int = 50,
        offset: int = 0,
    ) -> Sequence[SessionRow]:
        """Lists sessions, newest first."""
        wanted = {"cwd": cwd, "agent": agent, "status": status}
        given = {name: value for name, value in wanted.items() if value is not None}
        where = " AND ".join(f"{name} = ?" for name in given) or "true"
        return self._rows(
            f"WHERE {where} ORDER BY touched DESC LIMIT ? OFFSET ?",
            (*(bindable(value) for value in given.values()), limit, offset),
        )

    def titled(self, words: str, *, limit: int = 50) -> Sequence[SessionRow]:
        """Lists the sessions whose title contains the text, newest first."""
        return self._rows(
            "WHERE instr(lower(title), lower(?)) ORDER BY touched DESC LIMIT ?",
            (text(words), limit),
        )

    def count(self) -> int:
        total: int = self._database.query("SELECT count(*) FROM sessions")[0][0]
        return total

    def open_turns(self) -> Sequence[SessionRow]:
        """Sessions whose last turn has not ended: their process died, or is still running it."""
        return self._rows("WHERE open_turn IS NOT NULL ORDER BY touched", ())

    def owned(self) -> Sequence[str]:
        """Ids of sessions that a process owns, or owned until it died."""
        rows = self._database.query("SELECT id FROM sessions WHERE owner_socket IS NOT NULL")
        return [row[0] for row in rows]

    def native_ids(self, session: str) -> Sequence[str]:
        rows = self._database.query(
            "SELECT native_id FROM native_ids "
            "WHERE session = (SELECT number FROM sessions WHERE id = ?) ORDER BY native_id",
            (text(session),),
        )
        return [row[0] for row in rows]

    def open_requests(self, session: str | None = None) -> Sequence[OpenRequest]:
        """Lists open requests of one session or of all, oldest first."""
        rows = self._database.query(
            "SELECT id, request_id, seq, opened_at FROM requests JOIN sessions ON number = session "
            "WHERE ?1 IS NULL OR id = ?1 ORDER BY opened_at, seq",
            (session,),
        )
        return [OpenRequest(*row) for row in rows]

    def _rows(self, clause: str, bindings: tuple[Any, ...]) -> Sequence[SessionRow]:
        rows = self._database.query(f"{SELECT} {clause}", bindings)
        try:
            return [from_values(values) for values in rows]
        except msgspec.MsgspecError as error:
            raise self._database.damaged(f"the list of sessions: {error}") from error

    # -- writing -----------------------------------------------------------------------------------

    def create(self, row: SessionRow) -> Future[None]:
        def work(connection: apsw.Connection) -> None:
            number = insert(connection, row)
            if row.native_id is not None:
                connection.execute(
                    "INSERT INTO native_ids VALUES (?, ?, ?)",
                    (text(row.agent), text(row.native_id), number),
                )

        return self._database.write(work)

    def update(self, session: str, **fields: Any) -> Future[None]:
        """Changes fields that no entry records: title, agent, model, mode, owner, settings."""
        if unknown := fields.keys() - CHANGEABLE:
            raise TypeError(f"{sorted(unknown)} cannot be changed")
        values = {name: bindable(value) for name, value in fields.items()}
        assignments = ", ".join(f"{name} = ?" for name in values)

        def work(connection: apsw.Connection) -> None:
            connection.execute(
                f"UPDATE sessions SET {assignments} WHERE id = ?", (*values.values(), session)
            )
            if not connection.changes():
                raise SessionNotFound(session)

        return self._database.write(work)

    def rename(self, session: str, title: str) -> Future[None]:
        return self.update(session, title=title)

    def touch(self, session: str) -> Future[None]:
        """Makes the session the most recently used one."""

        def work(connection: apsw.Connection) -> None:
            connection.execute(f"UPDATE sessions SET touched = {TOUCHED} WHERE id = ?", (session,))
            if not connection.changes():
                raise SessionNotFound(session)

        return self._database.write(work)

    def delete(self, session: str) -> Future[None]:
        """Deletes the session and all its rows. The caller deletes its spill folder.

        Deletes slice by slice, from the newest entries, so that a long session does not block the
        writes of other sessions.
        """
        done: Future[None] = Future()

        def slice_done(future: Future[bool]) -> None:
            if error := future.exception():
                done.set_exception(error)
            elif future.result():
                done.set_result(None)
            else:
                self._database.write(work).add_done_callback(slice_done)

        def work(connection: apsw.Connection) -> bool:
            return _delete_slice(connection, number_of(connection, session))

        done.set_running_or_notify_cancel()
        self._database.write(work).add_done_callback(slice_done)
        return done

    def expired(self, before: str) -> Sequence[str]:
        """Ids of sessions without an owner and without updates since `before` (RFC 3339)."""
        rows = self._database.query(
            "SELECT id FROM sessions WHERE updated_at < ? AND owner_pid IS NULL ORDER BY touched",
            (before,),
        )
        return [row[0] for row in rows]

    def fork(
        self, session: str, new_id: str, *, created_at: str, up_to_seq: int | None = None
    ) -> Future[SessionRow]:
        """Copies the log up to `up_to_seq` into a session with a new id that can be continued."""
        return self._database.write(
            lambda connection: copy_session(
                connection, session, text(new_id), created_at, up_to_seq
            )
        )


def _delete_slice(connection: apsw.Connection, number: int) -> bool:
    """Deletes the newest entries; with the last slice, the session too. True when it is deleted."""
    ((entries,),) = cast(
        "list[tuple[int]]",
        connection.execute("SELECT entries FROM sessions WHERE number = ?", (number,)).fetchall(),
    )
    left = max(0, entries - DELETE_SLICE)
    for table in ("entries", "raws"):
        connection.execute(f"DELETE FROM {table} WHERE session = ? AND seq > ?", (number, left))
    if left:
        connection.execute("UPDATE sessions SET entries = ? WHERE number = ?", (left, number))
        return False
    drop_uses(connection, number)
    for table in ("messages", "native_ids", "requests"):
        connection.execute(f"DELETE FROM {table} WHERE session = ?", (number,))
    connection.execute(
        "DELETE FROM processes WHERE session = (SELECT id FROM sessions WHERE number = ?)",
        (number,),
    )
    connection.execute("DELETE FROM sessions WHERE number = ?", (number,))
    return True
