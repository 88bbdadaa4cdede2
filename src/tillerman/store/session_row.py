"""The row of a session in the store, and its conversion to and from SQLite values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apsw
import msgspec

from tillerman.core.errors import SessionError, SessionNotFound
from tillerman.store.row_codec import encode, text


class SessionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A session's row. The event log updates the fields that its entries determine."""

    id: str
    agent: str
    cwd: str
    created_at: str  # UTC, RFC 3339
    updated_at: str = ""  # timestamp of the last entry; created_at before the first
    status: str = "new"  # then "running", then the end reason of the last turn
    title: str | None = None
    prompt: str | None = None  # the beginning of the first prompt
    model: str | None = None
    mode: str | None = None
    native_id: str | None = None  # the agent's newest session id
    forked_from: str | None = None
    owner_socket: str | None = None
    owner_pid: int | None = None
    settings: dict[str, Any] = msgspec.field(default_factory=dict)  # needed to resume it
    entries: int = 0  # also the number of the last entry
    turns: int = 0
    open_turn: int | None = None  # the turn that has not ended yet
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost_usd: float | None = None


class OpenRequest(msgspec.Struct, frozen=True):
    """A permission request or question that is not answered yet."""

    session: str
    request_id: str
    seq: int
    opened_at: str


COLUMNS = tuple(field.name for field in msgspec.structs.fields(SessionRow))
SELECT = f"SELECT {', '.join(COLUMNS)} FROM sessions"
_INSERT = (  # the column `archived` is unused
    f"INSERT INTO sessions ({', '.join(COLUMNS)}, archived, touched) VALUES "
    f"({', '.join(':' + name for name in COLUMNS)}, 0, "
    "(SELECT coalesce(max(touched), 0) + 1 FROM sessions))"
)


def from_values(values: Sequence[Any]) -> SessionRow:
    fields = dict(zip(COLUMNS, values, strict=True))
    fields["settings"] = msgspec.json.decode(fields["settings"])
    return msgspec.convert(fields, SessionRow)


def to_values(row: SessionRow) -> dict[str, Any]:
    values = {name: bindable(getattr(row, name)) for name in COLUMNS}
    return values | {"updated_at": row.updated_at or row.created_at}


def bindable(value: Any) -> Any:
    match value:
        case str():
            return text(value)
        case dict():
            return encode(value)
        case _:
            return value


def insert(connection: apsw.Connection, row: SessionRow) -> int:
    """Inserts the row; returns its number."""
    values = to_values(row)
    if connection.execute("SELECT 1 FROM sessions WHERE id = ?", (values["id"],)).fetchone():
        raise SessionError(f"session {row.id!r} already exists", hint="use another id")
    connection.execute(_INSERT, values)
    return connection.last_insert_rowid()


def number_of(connection: apsw.Connection, session: str) -> int:
    found = connection.execute("SELECT number FROM sessions WHERE id = ?", (session,)).fetchone()
    if found is None:
        raise SessionNotFound(session)
    number: int = found[0]
    return number
