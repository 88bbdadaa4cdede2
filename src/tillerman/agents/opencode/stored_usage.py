"""Reads the tokens and cost of a session and its subagents from OpenCode's database.

Over ACP it reports only the last model call of a turn. The database has the sums: a row for each
session, and a subagent is a session with a parent.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path

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


def database(variable: Callable[[str], str | None]) -> Path:
    data = variable("XDG_DATA_HOME")
    home = Path(data) if data else Path(variable("HOME") or Path.home()) / ".local" / "share"
    return home / "opencode" / (variable("OPENCODE_DB") or "opencode.db")


def counted(database: Path, session: str) -> TokenCounts | None:
    """The totals with subagents; None if the database is missing or of another version."""
    with contextlib.suppress(sqlite3.Error, OSError, ValueError):
        place = f"{database.absolute().as_uri()}?mode=ro"
        with contextlib.closing(sqlite3.connect(place, uri=True, timeout=_BUSY)) as opened:
            found, *counts, cost = opened.execute(_QUERY, [session]).fetchone()
        if found and all(isinstance(count, int) for count in counts):
            asked, written, said, thought, read = counts
            return TokenCounts(asked + written, said + thought, read, float(cost))
    return None
