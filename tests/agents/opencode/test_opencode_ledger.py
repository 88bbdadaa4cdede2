"""The usage that OpenCode stored for a session, from a database in its format."""

from __future__ import annotations

import json
import random
import sqlite3
from pathlib import Path

import pytest

from tillerman.agents.decoding.token_meter import TokenCounts
from tillerman.agents.opencode.failures import of_answer
from tillerman.agents.opencode.stored_usage import counted, database, last_answer

SCHEMA = """
CREATE TABLE `session` (
    `id` text PRIMARY KEY, `parent_id` text, `cost` real DEFAULT 0 NOT NULL,
    `tokens_input` integer DEFAULT 0 NOT NULL, `tokens_output` integer DEFAULT 0 NOT NULL,
    `tokens_reasoning` integer DEFAULT 0 NOT NULL, `tokens_cache_read` integer DEFAULT 0 NOT NULL,
    `tokens_cache_write` integer DEFAULT 0 NOT NULL
);
CREATE TABLE `message` (
    `id` text PRIMARY KEY, `session_id` text NOT NULL, `time_created` integer NOT NULL,
    `data` text NOT NULL
)
"""  # of 1.18.33, without what is not read


@pytest.fixture
def store(tmp_path: Path) -> Path:
    file = tmp_path / "opencode.db"
    with sqlite3.connect(file) as opened:
        opened.execute("PRAGMA journal_mode = WAL")
        opened.executescript(SCHEMA)
    return file


def add(store: Path, id: str, parent: str | None, *counts: float) -> None:
    with sqlite3.connect(store) as opened:
        opened.execute(
            "INSERT INTO session (id, parent_id, tokens_input, tokens_cache_write, tokens_output,"
            " tokens_reasoning, tokens_cache_read, cost) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (id, parent, *counts),
        )


def test_a_session_is_counted_with_its_subagents_and_no_other(store: Path) -> None:
    """In any tree of sessions, each counts itself and all sessions below it."""
    chance = random.Random(15)
    parents: dict[str, str | None] = {}
    rows: dict[str, list[int]] = {}
    for number in range(40):
        id = f"ses_{number}"
        parents[id] = chance.choice([None, *parents]) if parents else None
        rows[id] = [chance.randrange(1000) for _ in range(5)]
        add(store, id, parents[id], *rows[id], 0.5)

    def is_below(id: str | None, top: str) -> bool:
        return id is not None and (id == top or is_below(parents[id], top))

    for top in parents:
        below = [rows[id] for id in parents if is_below(id, top)]
        asked, written, reported, thought, read = (
            sum(column) for column in zip(*below, strict=True)
        )
        whole = TokenCounts(asked + written, reported + thought, read, 0.5 * len(below))
        assert counted(store, top) == whole, top


def remember(store: Path, *messages: tuple[str, int, object]) -> None:
    with sqlite3.connect(store) as opened:
        for number, (session, at, data) in enumerate(messages):
            row = (f"msg_{number}", session, at, json.dumps(data))
            opened.execute("INSERT INTO message VALUES (?, ?, ?, ?)", row)


def test_the_last_answer_of_the_session_is_read(store: Path) -> None:
    last = {"role": "assistant", "finish": "length"}
    remember(
        store,
        ("ses_1", 1, {"role": "assistant", "finish": "tool-calls"}),
        ("ses_1", 3, last),
        ("ses_1", 2, {"role": "assistant", "finish": "stop"}),
        ("ses_1", 4, {"role": "user"}),
        ("ses_2", 9, {"role": "assistant", "finish": "other"}),
    )
    assert last_answer(store, "ses_1") == ("msg_1", last)
    assert last_answer(store, "ses_3") is None


def test_no_answer_is_known_in_a_store_of_another_version(tmp_path: Path) -> None:
    assert last_answer(tmp_path / "opencode.db", "ses_1") is None
    with sqlite3.connect(tmp_path / "opencode.db") as opened:
        opened.execute("CREATE TABLE message (id text)")
    assert last_answer(tmp_path / "opencode.db", "ses_1") is None


def api_error(status: int) -> dict[str, object]:
    return {"error": {"name": "APIError", "data": {"message": "x", "statusCode": status}}}


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        ({"finish": "stop"}, None),
        ({"finish": "length"}, "output_limit"),
        ({"finish": 7}, None),
        ({"error": {"name": "MessageAbortedError"}}, None),
        ({"error": {"name": "ContentFilterError", "data": {"message": "x"}}}, "refused"),
        (api_error(401), "not_signed_in"),
        (api_error(429), "rate_limited"),
        (api_error(503), "api_error"),
    ],
)
def test_a_stored_answer_has_the_kind_of_its_failure(
    data: dict[str, object], kind: str | None
) -> None:
    failure = of_answer(data)
    assert (failure and failure.kind) == kind


def test_a_turn_is_what_came_since(store: Path) -> None:
    assert TokenCounts(10, 5, 3, 0.3).since(TokenCounts(4, 2, 3, 0.1)) == TokenCounts(6, 3, 0, 0.2)


def test_the_usage_of_a_missing_session_is_unknown(store: Path) -> None:
    assert counted(store, "ses_none") is None


@pytest.mark.parametrize("content", [None, b"", b"no database", b"SQLite format 3\0" + b"x" * 900])
def test_the_usage_is_unknown_where_the_store_is_missing_or_another(
    tmp_path: Path, content: bytes | None
) -> None:
    file = tmp_path / "other #1?.db"
    if content is not None:
        file.write_bytes(content)
    assert counted(file, "ses_1") is None
    assert file.exists() == (content is not None)


def test_non_numeric_counts_are_ignored(store: Path) -> None:
    add(store, "ses_1", None, "many", 0, 0, 0, 0, 0.0)  # type: ignore[arg-type]
    assert counted(store, "ses_1") is None


@pytest.mark.parametrize(
    ("variables", "place"),
    [
        ({"HOME": "/h"}, "/h/.local/share/opencode/opencode.db"),
        ({"HOME": "/h", "XDG_DATA_HOME": "/d"}, "/d/opencode/opencode.db"),
        ({"HOME": "/h", "OPENCODE_DB": "my.db"}, "/h/.local/share/opencode/my.db"),
        ({"HOME": "/h", "OPENCODE_DB": "/my.db"}, "/my.db"),
    ],
)
def test_the_store_is_where_opencode_puts_it(variables: dict[str, str], place: str) -> None:
    assert database(variables.get) == Path(place)
