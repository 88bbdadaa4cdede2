"""A session as one row of the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apsw
import msgspec

from tillerman.core.errors import SessionError, SessionNotFound
from tillerman.store.row_codec import encode, text


class SessionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A session as the list knows it. What its entries tell is kept up by the event log."""

    id: str
    agent: str
    cwd: str
    created_at: str  # UTC, RFC 3339
    updated_at: str = ""  # of the last entry; as created_at before the first
    status: str = "new"  # then "running", then the reason of the last turn's end
    title: str | None = None
    prompt: str | None = None  # the beginning of the first one
    model: str | None = None
    mode: str | None = None
    native_id: str | None = None  # the agent's own, newest
    forked_from: str | None = None
    owner_socket: str | None = None
    owner_pid: int | None = None
    settings: dict[str, Any] = msgspec.field(default_factory=dict)  # whatever resuming needs
    entries: int = 0  # also the number of the last one
    turns: int = 0
    open_turn: int | None = None  # started, and not ended yet
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost_usd: float | None = None


class OpenRequest(msgspec.Struct, frozen=True):
    """A permission or question that nobody has answered."""

    session: str
    request_id: str
    seq: int
    opened_at: str


COLUMNS = tuple(field.name for field in msgspec.structs.fields(SessionRow))
SELECT = f"SELECT {', '.join(COLUMNS)} FROM sessions"
_INSERT = (  # `archived` is a column that nothing uses
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
    """The number of the new row."""
    values = to_values(row)
    if connection.execute("SELECT 1 FROM sessions WHERE id = ?", (values["id"],)).fetchone():
        raise SessionError(f"there is a session {row.id!r} already")
    connection.execute(_INSERT, values)
    return connection.last_insert_rowid()


def number_of(connection: apsw.Connection, session: str) -> int:
    found = connection.execute("SELECT number FROM sessions WHERE id = ?", (session,)).fetchone()
    if found is None:
        raise SessionNotFound(session)
    number: int = found[0]
    return number
