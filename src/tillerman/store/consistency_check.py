"""Consistency checks of a store, for data loss that SQLite itself does not report."""

from __future__ import annotations

from pathlib import Path

import apsw

from tillerman.store import migrations
from tillerman.store.wal_reader import Log, committed_frames


class LogCheck:
    """Compares the frames of the write-ahead log with those that SQLite recovers from it.

    SQLite stops at the first invalid frame and treats the rest as never written. Create this before
    the store is opened, while no other process has it open.
    """

    def __init__(self, path: Path) -> None:
        self._log = Log.beside(path)
        self._committed = committed_frames(path, self._log)

    def damage(self, connection: apsw.Connection) -> str:
        """Describes missing frames, after `connection` has read the log; empty if there are
        none."""
        read, _ = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
        read = max(read, 0)
        if read < self._committed:
            return f"only {read} of {self._committed} pages of its write-ahead log can be read"
        if not self._log.holds_frames:
            return ""
        if not self._log.header_whole:
            return "the start of its write-ahead log is damaged"
        unread = [frame for frame in self._log.frames() if frame.number > read]
        # A power cut leaves one torn transaction, and no frame after its commit mark.
        if any(frame.commits for frame in unread[:-1]):
            return f"{len(unread)} pages of its write-ahead log follow a damaged one"
        return ""


def damaged_schema(connection: apsw.Connection) -> str:
    """Checks that the tables are those that the migrations create; empty when they are."""
    fresh = apsw.Connection(":memory:")
    migrations.migrate(fresh, "a fresh store")
    schema = "SELECT type, name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite_stat%'"
    same = set(connection.execute(schema)) == set(fresh.execute(schema))
    fresh.close()
    return "" if same else "its tables do not match the schema"


def damaged_list(connection: apsw.Connection) -> str:
    """Returns the first error in the table of sessions; fast enough for every opening."""
    return _damage(connection, "PRAGMA integrity_check('sessions')")


def damaged_anywhere(connection: apsw.Connection) -> str:
    """Returns the first error in any table; reads the whole file."""
    if fault := _damage(connection, "PRAGMA integrity_check(1)"):
        return fault
    short = connection.execute(
        "SELECT id FROM sessions LEFT JOIN "
        "(SELECT session, count(*) AS held, max(seq) AS last FROM entries GROUP BY session) "
        "ON session = number "
        "WHERE entries != coalesce(held, 0) OR entries != coalesce(last, 0) LIMIT 1"
    ).fetchall()
    return f"entries of session {short[0][0]} are missing" if short else ""


def _damage(connection: apsw.Connection, check: str) -> str:
    found = connection.execute(check).fetchall()
    return "" if found == [("ok",)] else str(found[0][0])
