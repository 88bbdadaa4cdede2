"""Salvages a damaged store: copies it aside, and saves its readable rows into a new one."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import apsw
import msgspec

from tillerman.core.errors import StoreDamaged
from tillerman.core.events import AgentStarted, Entry, Notice, decode_event
from tillerman.store import migrations
from tillerman.store.damage_marker import DamageMarker
from tillerman.store.database import Database
from tillerman.store.event_log import Row, insert_rows
from tillerman.store.page_reader import Value, rows
from tillerman.store.row_codec import pack_event, unpack_event, unpack_lines
from tillerman.store.session_projection import SessionProjection
from tillerman.store.session_row import SessionRow, insert
from tillerman.store.wal_reader import index_of, log_of

TABLES = (
    "sessions", "entries", "raws", "messages", "attachments", "attachment_uses", "processes"
)  # fmt: skip
WIDEST_GAP = 100_000  # entries; a larger gap means the number itself is damaged
LOST = Notice(level="error", kind="storage", text="This entry was lost when the store was damaged.")
_TYPES: dict[str, type | tuple[type, ...]] = {
    "INTEGER": int, "TEXT": str, "BLOB": bytes, "REAL": (int, float)
}  # fmt: skip
_KEPT = ("title", "updated_at", "input_tokens", "output_tokens", "cached_tokens", "cost_usd")


class SalvageReport(msgspec.Struct, frozen=True):
    """Counts of saved and lost rows, and the folder of the damaged files."""

    why: str
    aside: Path
    sessions: int
    entries: int
    lost_entries: int
    lost_blocks: int  # of raw lines; their entries are stored separately
    unnamed_sessions: tuple[str, ...]  # generated names, since their row was lost

    def __str__(self) -> str:
        lost = f"{self.lost_entries} lost" if self.lost_entries else "none known to be lost"
        text = (
            f"The store was damaged ({self.why}). Saved: {self.sessions} sessions with "
            f"{self.entries} entries, {lost}. The damaged files are in {self.aside}."
        )
        if self.lost_blocks:
            text += f" Raw agent output was lost in {self.lost_blocks} places."
        if self.unnamed_sessions:
            text += f" Sessions that lost their title: {', '.join(self.unnamed_sessions)}."
        return text


def open_or_salvage(path: Path) -> tuple[Database, SalvageReport | None]:
    """Opens the store, and salvages it first if it is damaged; also returns the report."""
    try:
        return Database.open(path), None
    except StoreDamaged:
        report = salvage(path)
    return Database.open(path), report


def salvage(path: Path) -> SalvageReport:
    """Salvages the store at `path`, which must not be open. Can be repeated if interrupted."""
    path = path.absolute()
    with _alone(path):
        mark = DamageMarker(path)
        why = mark.why or "it could not be opened"
        aside = mark.aside or _move_aside(path, mark, why)
        fresh = path.with_name(f"{path.name}.fresh")
        for leftover in (fresh, log_of(fresh), index_of(fresh)):
            leftover.unlink(missing_ok=True)
        os.close(os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        report = _save(aside / path.name, fresh, why, aside)
        for stale in (log_of(path), index_of(path)):
            stale.unlink(missing_ok=True)
        _sync(fresh)
        fresh.replace(path)
        _sync(path.parent)
        mark.remove()
        return report


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    lock = os.open(
        path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
    )
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StoreDamaged(
                f"{path} is damaged, and other processes have it open",
                hint="stop all other tillerman processes, then start again",
            ) from error
        yield
    finally:
        os.close(lock)


def _move_aside(path: Path, mark: DamageMarker, why: str) -> Path:
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    aside = path.with_name(f"{path.name}.damaged-{stamp}")
    aside.mkdir(mode=0o700)
    for file in (path, log_of(path), index_of(path)):
        if file.exists():
            shutil.copy2(file, aside / file.name)
            _sync(aside / file.name)
    _sync(aside)
    mark.set(why, aside)  # from here on a repeated salvage reads the copy, not the original files
    return aside


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# -- rows ------------------------------------------------------------------------------------------


def _save(damaged: Path, fresh: Path, why: str, aside: Path) -> SalvageReport:
    connection = apsw.Connection(str(fresh))
    try:
        connection.pragma("synchronous", "off")  # the complete file is synced at the end
        migrations.migrate(connection, str(fresh))
        connection.execute("BEGIN")
        _copy_rows(connection, damaged)
        unnamed = _name_sessions(connection)
        lost = sum(_repair_session(connection, *row) for row in _sessions(connection))
        lost_blocks = _drop_broken_blocks(connection)
        connection.execute(
            "DELETE FROM attachment_uses WHERE session NOT IN (SELECT number FROM sessions)"
        )
        connection.execute("COMMIT")
        counts = "SELECT (SELECT count(*) FROM sessions), (SELECT count(*) FROM entries)"
        ((sessions, entries),) = cast(
            "list[tuple[int, int]]", connection.execute(counts).fetchall()
        )
    finally:
        connection.close()
    return SalvageReport(why, aside, sessions, entries - lost, lost, lost_blocks, tuple(unnamed))


def _copy_rows(connection: apsw.Connection, damaged: Path) -> None:
    """Copies each row into the table whose column count and types it matches; these are unique."""
    shapes = {table: _shape(connection, table) for table in TABLES}
    inserts = {
        table: f"INSERT OR IGNORE INTO {table} VALUES ({', '.join('?' * len(shape))})"
        for table, shape in shapes.items()
    }
    for number, values in rows(damaged):
        for table, shape in shapes.items():
            if len(values) != len(shape) or not all(map(_fits, values, shape)):
                continue
            key = number if table == "sessions" else None
            with contextlib.suppress(apsw.ConstraintError, apsw.MismatchError):
                connection.execute(inserts[table], (key, *values[1:]))


def _shape(connection: apsw.Connection, table: str) -> list[tuple[str, bool, bool]]:
    columns = connection.execute('SELECT type, "notnull", pk FROM pragma_table_info(?)', (table,))
    return [(str(kind), bool(required), bool(key)) for kind, required, key in columns]


def _fits(value: Value, column: tuple[str, bool, bool]) -> bool:
    kind, required, key = column
    if key:
        return value is None
    return not required if value is None else isinstance(value, _TYPES[kind])


def _name_sessions(connection: apsw.Connection) -> list[str]:
    """Creates rows for sessions whose row was lost, from their entries."""
    nameless = connection.execute(
        "SELECT session, min(at) FROM entries "
        "WHERE session NOT IN (SELECT number FROM sessions) GROUP BY session"
    ).fetchall()
    names = []
    for number, at in nameless:
        name = f"salvaged-{number}"
        row = SessionRow(id=name, agent="unknown", cwd="", created_at=str(at))
        insert(connection, row)
        connection.execute("UPDATE sessions SET number = ? WHERE id = ?", (number, name))
        names.append(name)
    return names


def _repair_session(connection: apsw.Connection, number: int, known: int, agent: str) -> int:
    """Fills the gaps in a session's log and updates its row; returns the number of lost entries."""
    lost = _fill_gaps(connection, number, known)
    stored = connection.execute(
        f"SELECT {', '.join(_KEPT)} FROM sessions WHERE number = ?", (number,)
    ).fetchall()[0]
    connection.execute(
        "UPDATE sessions SET entries = 0, turns = 0, open_turn = NULL, status = 'new', "
        "cost_usd = NULL, input_tokens = 0, output_tokens = 0, cached_tokens = 0 WHERE number = ?",
        (number,),
    )
    projection = SessionProjection()
    for seq, turn, at, event in _rows(connection, number):
        entry = Entry(
            session="", seq=seq, turn=turn, at=at, event=decode_event(unpack_event(event))
        )
        projection.note(entry)
        if agent == "unknown" and isinstance(entry.event, AgentStarted):
            agent = entry.event.agent
            connection.execute("UPDATE sessions SET agent = ? WHERE number = ?", (agent, number))
    projection.store(connection, number, agent, 1)
    if known:  # entries of a fork include usage before the fork, its row does not
        connection.execute(
            f"UPDATE sessions SET {', '.join(f'{name} = ?' for name in _KEPT)} WHERE number = ?",
            (*stored, number),
        )
    return lost


def _fill_gaps(connection: apsw.Connection, number: int, known: int) -> int:
    """Inserts a LOST notice for each missing number, so that entries are gapless from 1."""
    event = pack_event(LOST)
    missing: list[Row] = []
    last, turn, at = 0, 0, ""
    for seq, its_turn, its_at, _ in _rows(connection, number):
        if not last < seq <= last + WIDEST_GAP:
            break
        at = at or its_at
        missing += [(lost, turn, at, event) for lost in range(last + 1, seq)]
        last, turn, at = seq, its_turn, its_at
    connection.execute(
        "DELETE FROM entries WHERE session = ? AND (seq < 1 OR seq > ?)", (number, last)
    )
    if last < known <= last + WIDEST_GAP:
        missing += [(lost, turn, at, event) for lost in range(last + 1, known + 1)]
    insert_rows(connection, number, missing)
    return len(missing)


def _drop_broken_blocks(connection: apsw.Connection) -> int:
    broken = []
    for number, block in connection.execute("SELECT id, lines FROM raws"):
        try:
            unpack_lines(cast(bytes, block))
        except ValueError:
            broken.append((number,))
    connection.executemany("DELETE FROM raws WHERE id = ?", broken)
    return len(broken)


def _rows(connection: apsw.Connection, number: int) -> Iterator[Row]:
    found = connection.execute(
        "SELECT seq, turn, at, event FROM entries WHERE session = ? ORDER BY seq", (number,)
    )
    return cast("Iterator[Row]", found)


def _sessions(connection: apsw.Connection) -> list[tuple[int, int, str]]:
    found = connection.execute("SELECT number, entries, agent FROM sessions")
    return cast("list[tuple[int, int, str]]", found.fetchall())
