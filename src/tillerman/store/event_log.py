"""The event log: appends the entries of each session in order without gaps, and reads them."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Generator, Iterator, Sequence
from concurrent.futures import Future
from typing import cast

import apsw

from tillerman.core.errors import SessionNotFound, StoreDamaged, StoreError
from tillerman.core.events import Entry, decode_event
from tillerman.store.database import Database
from tillerman.store.row_codec import (
    Line,
    Received,
    pack_event,
    pack_lines,
    unpack_event,
    unpack_lines,
)
from tillerman.store.session_projection import SessionProjection

PAGE_ENTRIES = 1000
PAGE_BYTES = 1024 * 1024
ALL = 2**62

Row = tuple[int, int, str, bytes]  # seq, turn, at, event

# One statement for many rows: each statement hands the interpreter lock to the event loop's thread,
# and a busy thread is slow to return it.
_ROWS_PER_INSERT = (256, 64, 16, 8, 4, 2, 1)
_INSERTS = {
    rows: "INSERT INTO entries (session, seq, turn, at, event) VALUES "
    + ",".join(["(?1,?,?,?,?)"] * rows)
    for rows in _ROWS_PER_INSERT
}


class EventLog:
    def __init__(self, database: Database) -> None:
        self._database = database

    def append(self, received: Sequence[Received], *, urgent: bool = False) -> Future[None]:
        """Appends entries together with the raw lines that caused them; see `write`."""
        entries = [entry for _, caused in received for entry in caused]
        lines = [
            (each[0].seq, each[-1].seq, raw) for raw, each in received if raw is not None and each
        ]
        return self.write(entries, lines, urgent=urgent)

    def write(
        self, entries: Sequence[Entry], lines: Sequence[Line] = (), *, urgent: bool = False
    ) -> Future[None]:
        """Writes entries of one session, in order; the future resolves when they are on disk.

        Entries that are already stored are skipped, so repeating an append whose acknowledgement
        was lost has no effect. A gap, or a different entry under the same number, is refused. On a
        full disk an append waits; an `urgent` one (the notice about the full disk) uses the
        reserve.
        """
        batch = _Batch(entries, lines)
        session = entries[0].session if entries else None
        return self._database.write(batch.store, prepare=batch.encode, line=session, urgent=urgent)

    def since(self, session: str, seq: int = 0, limit: int = 1000) -> list[Entry]:
        """Returns entries after `seq`, oldest first."""
        return [
            _entry(session, row, unpack_event(row[3])) for row in self._rows(session, seq, limit)
        ]

    def page(self, session: str, seq: int = 0) -> list[Entry]:
        """Returns the next entries after `seq`, up to a page of bounded size."""
        entries: list[Entry] = []
        room = PAGE_BYTES
        rows = self._rows(session, seq, PAGE_ENTRIES)
        with contextlib.closing(rows):
            for row in rows:
                event = unpack_event(row[3])
                entries.append(_entry(session, row, event))
                room -= len(event)
                if room <= 0:
                    break
        return entries

    def of_types(self, session: str, types: Collection[str]) -> Iterator[Entry]:
        """Yields entries of the given types, oldest first, without decoding most of the others."""
        wanted = tuple(f'{{"type":"{name}"'.encode() for name in types)
        for row in self._rows(session, 0, ALL):
            packed = row[3]
            if packed.startswith(b"{") and not packed.startswith(wanted):
                continue
            event = unpack_event(packed)
            if event.startswith(wanted):
                yield _entry(session, row, event)

    def last_seq(self, session: str) -> int:
        """The last sequence number; 0 for a session that is empty or unknown."""
        rows = self._database.query("SELECT entries FROM sessions WHERE id = ?", (session,))
        return rows[0][0] if rows else 0

    def raw(self, session: str, seq: int) -> bytes | None:
        """Returns the agent's raw line behind an entry; None if there is none."""
        rows = self._database.query(
            "SELECT lines FROM raws WHERE seq <= ?2 AND session = "
            "(SELECT number FROM sessions WHERE id = ?1) ORDER BY seq DESC LIMIT 1",
            (session, seq),
        )
        for (block,) in rows:
            try:
                lines = unpack_lines(block)
            except ValueError as error:
                raise self._database.damaged(f"raw lines of session {session}: {error}") from error
            return next((line for first, last, line in lines if first <= seq <= last), None)
        return None

    def _rows(self, session: str, seq: int, limit: int) -> Generator[Row, None, None]:
        """Reads rows, and checks them against the count that the session's row holds."""
        found = self._database.rows(
            "SELECT seq, turn, at, event, known FROM "
            "(SELECT number, sessions.entries AS known FROM sessions WHERE id = ?1) "
            "LEFT JOIN entries ON session = number AND seq > ?2 ORDER BY seq LIMIT ?3",
            (session, seq, limit),
        )
        expected, known = seq, seq
        for *row, known in found:
            if row[0] is None:
                break
            expected += 1
            if row[0] != expected or expected > known:
                raise self._missing(session, seq)
            yield cast(Row, tuple(row))
        if expected - seq < min(limit, known - seq):
            raise self._missing(session, seq)

    def _missing(self, session: str, seq: int) -> StoreDamaged:
        return self._database.damaged(f"entries of session {session} after {seq} are missing")


def _entry(session: str, row: Row, event: bytes) -> Entry:
    seq, turn, at, _ = row
    return Entry(session=session, seq=seq, turn=turn, at=at, event=decode_event(event))


class _Batch:
    """One append: encodes entries, validates their order, and inserts them."""

    def __init__(self, entries: Sequence[Entry], lines: Sequence[Line]) -> None:
        self._entries = entries
        self._lines = lines
        self._rows: list[Row] = []
        self._blocks: list[tuple[int, bytes]] = []
        self._session = ""
        self._projection: SessionProjection

    def encode(self) -> None:
        sessions = set()
        self._projection = SessionProjection()
        for entry in self._entries:
            self._rows.append((entry.seq, entry.turn, entry.at, pack_event(entry.event)))
            self._projection.note(entry)
            sessions.add(entry.session)
        if not self._rows:
            return
        if len(sessions) > 1:
            raise StoreError(
                f"one append has entries of {len(sessions)} sessions",
                hint="this is a defect of tillerman: please report it",
            )
        (self._session,) = sessions
        first = self._rows[0][0]
        if [row[0] for row in self._rows] != list(range(first, first + len(self._rows))):
            raise StoreError(
                f"entries of session {self._session} are out of order",
                hint="this is a defect of tillerman: please report it",
            )
        self._blocks = pack_lines(self._lines)

    def store(self, connection: apsw.Connection) -> None:
        if not self._rows:
            return
        found = connection.execute(
            "SELECT number, entries, agent FROM sessions WHERE id = ?", (self._session,)
        ).fetchone()
        if found is None:
            raise SessionNotFound(self._session)
        number, last, agent = found
        rows = self._new_rows(connection, number, last)
        if not rows:
            return
        first = rows[0][0]
        insert_rows(connection, number, rows)
        whole = first == self._rows[0][0]
        for seq, lines in self._blocks if whole else self._blocks_from(first):
            connection.execute(
                "INSERT INTO raws (session, seq, lines) VALUES (?, ?, ?)", (number, seq, lines)
            )
        self._projection.store(connection, number, agent, first)

    def _blocks_from(self, first: int) -> list[tuple[int, bytes]]:
        left = [(max(first, one), last, raw) for one, last, raw in self._lines if last >= first]
        return pack_lines(left)

    def _new_rows(self, connection: apsw.Connection, number: int, last: int) -> list[Row]:
        rows = self._rows
        first = rows[0][0]
        if first > last + 1:
            raise StoreError(
                f"session {self._session} has {last} entries; number {first} would leave a gap",
                hint="this is a defect of tillerman: please report it",
            )
        known = rows[: last + 1 - first]
        if known:
            stored = connection.execute(
                "SELECT seq, turn, at, event FROM entries "
                "WHERE session = ? AND seq BETWEEN ? AND ? ORDER BY seq",
                (number, first, known[-1][0]),
            ).fetchall()
            if stored != known:
                raise StoreError(
                    f"session {self._session} has different entries from number {first}",
                    hint="two processes wrote the same session; only its owner may",
                )
        return rows[len(known) :]


def insert_rows(connection: apsw.Connection, number: int, rows: Sequence[Row]) -> None:
    at = 0
    for size in _ROWS_PER_INSERT:
        while len(rows) - at >= size:
            values: list[int | str | bytes] = [number]
            for row in rows[at : at + size]:
                values += row
            connection.execute(_INSERTS[size], values)
            at += size
