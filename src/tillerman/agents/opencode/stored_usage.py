"""Reads what OpenCode stores of a session: tokens and cost, and how the last answer ended.

Over ACP it reports only the last model call of a turn, no limit that cut it, and no status of an
API error. The database has the sums: a row for each session, and a subagent is a session with a
parent.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tillerman.agents.decoding.fields import Table, parse
from tillerman.agents.decoding.token_meter import TokenCounts

_BUSY = 1.0  # seconds to wait for another writer
_QUERY = """
    WITH RECURSIVE ours(id) AS (
        SELECT id FROM session WHERE id = ?
        UNION SELECT session.id FROM session JOIN ours ON session.parent_id = ours.id
    )
    SELECT count(*), sum(tokens_input), sum(tokens_cache_write), sum(tokens_output),
        sum(tokens_reasoning), sum(tokens_cache_read), sum(cost)
    FROM session WHERE id IN ours
"""

_LAST_ANSWER = """
    SELECT id, data FROM message
    WHERE session_id = ? AND json_extract(data, '$.role') = 'assistant'
    ORDER BY time_created DESC, id DESC LIMIT 1
"""


class StoredAnswer(NamedTuple):
    id: str
    data: Table  # with `finish`, or `error`


def database(variable: Callable[[str], str | None]) -> Path:
    data = variable("XDG_DATA_HOME")
    home = Path(data) if data else Path(variable("HOME") or Path.home()) / ".local" / "share"
    return home / "opencode" / (variable("OPENCODE_DB") or "opencode.db")


def counted(database: Path, session: str) -> TokenCounts | None:
    """The totals with subagents; None if the database is missing or of another version."""
    found, *counts, cost = _row(database, _QUERY, session) or (0, None)
    if not found or not all(isinstance(count, int) for count in counts):
        return None
    asked, written, output, thought, read = counts
    return TokenCounts(asked + written, output + thought, read, float(cost))


def last_answer(database: Path, session: str) -> StoredAnswer | None:
    """The model's last answer in a session."""
    id, data, *_ = _row(database, _LAST_ANSWER, session) or (None, "")
    fields = parse(data.encode()) if isinstance(data, str) else data
    return StoredAnswer(id, fields) if isinstance(id, str) and isinstance(fields, dict) else None


def _row(database: Path, query: str, session: str) -> tuple[Any, ...] | None:
    with contextlib.suppress(sqlite3.Error, OSError, ValueError):
        place = f"{database.absolute().as_uri()}?mode=ro"
        with contextlib.closing(sqlite3.connect(place, uri=True, timeout=_BUSY)) as opened:
            row: tuple[Any, ...] | None = opened.execute(query, [session]).fetchone()
            return row
    return None
