"""Full-text search over whole messages, indexed at the end of each turn."""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Literal

import apsw
import msgspec

from tillerman.store.database import Database
from tillerman.store.row_codec import text as storable
from tillerman.store.session_row import number_of

Role = Literal["user", "agent"]

MARK_BEGIN, MARK_END = "\x02", "\x03"  # mark the match in a snippet
_TERM = re.compile(r'"([^"]+)"|(\S+)')


class Hit(msgspec.Struct, frozen=True):
    session: str
    turn: int
    role: str
    snippet: str


class Search:
    def __init__(self, database: Database) -> None:
        self._database = database

    def index(self, session: str, turn: int, messages: Sequence[tuple[Role, str]]) -> Future[None]:
        """Indexes the messages of one turn; replaces those indexed for it before."""

        def work(connection: apsw.Connection) -> None:
            number = number_of(connection, session)
            connection.execute(
                "DELETE FROM messages WHERE session = ? AND turn = ?", (number, turn)
            )
            connection.executemany(
                "INSERT INTO messages (session, turn, role, text) VALUES (?, ?, ?, ?)",
                [(number, turn, role, storable(text)) for role, text in messages if text],
            )

        return self._database.write(work)

    def search(self, query: str, *, session: str | None = None, limit: int = 20) -> list[Hit]:
        """Finds messages with all words of the query, as whole words or prefixes, best match first.

        Words in double quotes must be adjacent. No query is a syntax error.
        """
        match_expression = expression(query)
        if not match_expression:
            return []
        rows = self._database.query(
            "SELECT sessions.id, messages.turn, messages.role, "
            "snippet(messages_index, 0, ?1, ?2, '…', 16) "
            "FROM messages_index "
            "JOIN messages ON messages.id = messages_index.rowid "
            "JOIN sessions ON sessions.number = messages.session "
            "WHERE messages_index MATCH ?3 AND (?4 IS NULL OR sessions.id = ?4) "
            "ORDER BY rank LIMIT ?5",
            (MARK_BEGIN, MARK_END, match_expression, session, limit),
        )
        return [Hit(*row) for row in rows]


def expression(query: str) -> str:
    """Converts the query to FTS5 syntax, with every term quoted."""
    run_settings = []
    for phrase, word in _TERM.findall(storable(query).replace("\0", " ")):
        term = phrase or word.replace('"', "")
        if any(character.isalnum() for character in term):
            run_settings.append(f'"{phrase}"' if phrase else f'"{term}"*')
    return " ".join(run_settings)
