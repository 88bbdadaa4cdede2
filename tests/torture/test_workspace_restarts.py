"""200 background processes over 10 sessions, whose server is restarted in the middle."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.supervision import kills
from tests.workspace.process_server import Server
from tillerman.core.workspace_process import WorkspaceProcess
from tillerman.store.database import Database
from tillerman.store.process_table import ProcessTable

SESSIONS = [f"session-{number}" for number in range(10)]
EACH = 20
LEASE = 30


@pytest.mark.torture
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("how", ["killed", "politely", "killed while it starts them"])
def test_no_process_is_lost_or_doubled_and_all_end_with_their_sessions(
    tmp_path: Path, how: str
) -> None:
    chance = random.Random()
    token = kills.new_token(chance)
    marks = tmp_path / "marks"
    marks.mkdir()
    server = Server(tmp_path / "home", SESSIONS, linger=LEASE)
    command = f"echo x >> {marks}/$TILLERMAN_MARKER; echo up; setsid sleep {token} & sleep {token}"
    orders = [name for name in SESSIONS for _ in range(EACH)]
    chance.shuffle(orders)
    fields: dict[str, dict[str, object]] = {}

    def take(answer: dict[str, object]) -> None:
        fields[str(answer["id"])] = answer

    half = len(orders) // 2
    for session in orders[:half]:
        take(server.start(session, command))
    if how == "killed while it starts them":
        for session in orders[half:]:
            server.send(session, "start", command, mode="background")
        time.sleep(chance.uniform(0, 0.3))
        server.process.kill()
        with suppress(EOFError):  # what it printed before
            while True:
                take(server.receive())
        server.close()
    elif how == "killed":
        server.kill()
    else:
        server.stop("let_go")

    server = Server(tmp_path / "home", SESSIONS, linger=LEASE)
    found = {row["id"]: row for name in SESSIONS for row in server.ask(name, "list")}
    assert fields.keys() - found.keys() == set()
    for name, row in fields.items():
        assert (found[name]["status"], found[name]["pid"]) == ("running", row["pid"])
    assert {found[name]["status"] for name in found.keys() - fields.keys()} <= {"running", "lost"}
    running = Counter(row["session"] for row in found.values() if row["status"] == "running")
    for session in SESSIONS:  # as many as may run at once
        for _ in range(EACH - running[session]):
            take(server.start(session, command))
        assert "refused" in server.start(session, command)
    rows = [row for name in SESSIONS for row in server.ask(name, "list", "running")]
    assert len({row["id"] for row in rows}) == len({row["pid"] for row in rows}) == len(orders)
    _wait_for(lambda: len(kills.holders(token)) == 3 * len(orders))
    assert {len(mark.read_text().split()) for mark in marks.iterdir()} == {1}  # none ran twice

    for session in SESSIONS[:5]:
        server.ask(session, "close")
        assert {row["status"] for row in server.ask(session, "list")} <= {"killed", "lost"}
    _wait_for(lambda: len(kills.holders(token)) == 3 * len(orders) // 2)
    server.stop("close")
    assert kills.wait_until_gone(token) == []
    _wait_for(lambda: list((tmp_path / "home/spawns").iterdir()) == [])
    ended = _rows(tmp_path / "home/store.db")
    print(how, len(fields), "told,", Counter(row.status for row in ended))
    assert {row.status for row in ended} <= {"killed", "lost"}
    assert fields.keys() <= {row.id for row in ended if row.status == "killed"}


def _wait_for(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _rows(path: Path) -> list[WorkspaceProcess]:
    database = Database.open(path, read_only=True)
    try:
        return list(ProcessTable(database).list())
    finally:
        database.close()
