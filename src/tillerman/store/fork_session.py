"""Forks a session: copies its log up to an entry into a new session."""

from __future__ import annotations

import apsw
import msgspec

from tillerman.core.events import TurnEnded, decode_event
from tillerman.store.row_codec import event_type, unpack_event
from tillerman.store.session_row import SELECT, SessionRow, from_values, insert, number_of


def copy_session(
    connection: apsw.Connection,
    session: str,
    new_id: str,
    created_at: str,
    up_to_seq: int | None,
) -> SessionRow:
    """Copies without the usage totals of the original; a turn that is cut off stays open."""
    number = number_of(connection, session)
    (values,) = connection.execute(f"{SELECT} WHERE number = ?", (number,)).fetchall()
    source = from_values(values)
    last = source.entries if up_to_seq is None else min(up_to_seq, source.entries)
    turns, open_turn, status = _turns(connection, number, last)
    new = msgspec.structs.replace(
        source,
        id=new_id,
        created_at=created_at,
        updated_at=created_at,
        status=status,
        forked_from=session,
        owner_socket=None,
        owner_pid=None,
        entries=last,
        turns=turns,
        open_turn=open_turn,
        input_tokens=0,
        output_tokens=0,
        cached_tokens=0,
        cost_usd=None,
    )
    copy = insert(connection, new)
    connection.execute(
        "INSERT INTO entries (session, seq, turn, at, event) "
        "SELECT ?, seq, turn, at, event FROM entries WHERE session = ? AND seq <= ? ORDER BY seq",
        (copy, number, last),
    )
    connection.execute(
        "INSERT INTO raws (session, seq, lines) "
        "SELECT ?, seq, lines FROM raws WHERE session = ? AND seq <= ? ORDER BY seq",
        (copy, number, last),
    )
    connection.execute(
        "INSERT INTO messages (session, turn, role, text) "
        "SELECT ?, turn, role, text FROM messages WHERE session = ? AND turn <= ? ORDER BY id",
        (copy, number, turns if open_turn is None else turns - 1),
    )
    connection.execute(
        "INSERT INTO attachment_uses (hash, session) "
        "SELECT hash, ? FROM attachment_uses WHERE session = ?",
        (copy, number),
    )
    return new


def _turns(connection: apsw.Connection, number: int, last: int) -> tuple[int, int | None, str]:
    """Returns the number of turns in the first `last` entries, the open turn, and the status."""
    rows = connection.execute(
        "SELECT turn, event FROM entries WHERE session = ? AND seq <= ? ORDER BY seq DESC",
        (number, last),
    )
    turns = 0
    for turn, event in rows:
        turns = max(turns, turn)
        match event_type(event):
            case "turn_started":
                return turns, turn, "running"
            case "turn_ended":
                end = decode_event(unpack_event(event))
                return turns, None, end.reason if isinstance(end, TurnEnded) else "new"
    return turns, None, "new"
