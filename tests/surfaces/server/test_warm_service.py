"""Warm agents of a running service: a new session takes one, and none outlives the service."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.surfaces.conftest import Bench
from tests.surfaces.server.service_desk import Desk
from tillerman.supervision.linux import process_table

pytest.importorskip("starlette")

STEPS = [
    {"think": "It greets."},
    {"say": "Hello."},
    {"run": "printf done", "output": "done"},
    {"say": "Done."},
]
WARM_WITHIN = 30.0
OFF = {"TILLERMAN_SERVER_WARM_AGENTS": "none"}
OWN = {"seconds", "native_id"}  # differ in any two sessions


@pytest.fixture
def cold(tmp_path: Path) -> Iterator[Desk]:
    """A service that keeps no agents."""
    (tmp_path / "cold").mkdir()
    bench = Bench(tmp_path / "cold")
    desk = Desk(bench).open(**OFF)
    yield desk
    desk.close()
    bench.close()


def tree(desk: Desk) -> set[int]:
    pid = desk.record["pid"]
    return process_table.descendants([pid], process_table.snapshot())


def alive(pids: set[int]) -> set[int]:
    table = process_table.snapshot()
    return {pid for pid in pids if pid in table and not table[pid].dead}


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WARM_WITHIN
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.05)


def warm(desk: Desk) -> None:
    until(lambda: desk.get("/health")["warm_agents"] == 1)


def told(entries: list[dict[str, Any]]) -> tuple[list[Any], list[Any]]:
    """What the log says, without what is never the same twice. An agent is ready before or after
    its first prompt is stored."""
    events = [_plain(entry["event"]) for entry in entries]
    ready = [event for event in events if event["type"] == "agent_ready"]
    return ready, [event for event in events if event not in ready]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items() if name not in OWN}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return value


def test_a_warm_agent_is_taken_and_its_log_is_that_of_a_cold_one(desk: Desk, cold: Desk) -> None:
    first = desk.start(STEPS, linger=0)
    desk.ended(first)
    without = cold.start(STEPS, linger=0)
    cold.ended(without)
    warm(desk)
    assert cold.get("/health")["warm_agents"] == 0
    until(lambda: tree(cold) == set())
    waiting = tree(desk)
    assert [row["id"] for row in desk.get("/sessions")] == [first]  # it belongs to no session
    assert "tillerman_agents_warm 1" in desk.call("GET", "/metrics").data.decode()

    taken = desk.start(STEPS, linger=3600)
    log = desk.ended(taken)
    assert desk.get("/health")["warm_agents"] == 0
    assert waiting <= tree(desk)  # the same processes
    assert told(log) == told(cold.ended(without)) == told(desk.ended(first))
    assert [row["id"] for row in desk.get("/sessions")] == [taken, first]


def test_other_settings_do_not_take_it(desk: Desk) -> None:
    desk.ended(desk.start(STEPS, linger=0))
    warm(desk)
    waiting = tree(desk)
    other = desk.start(STEPS, linger=3600, approve="edits", env=["TERM=dumb"])
    assert alive(waiting) == waiting
    assert desk.get("/health")["warm_agents"] == 1
    desk.call("POST", f"/sessions/{other}/close")


@pytest.mark.parametrize("how", ["kill", "close"])
def test_no_warm_agent_outlives_the_service(desk: Desk, how: str) -> None:
    desk.ended(desk.start(STEPS, linger=0))
    warm(desk)
    until(lambda: desk.get("/health")["sessions"] == 0)
    waiting = tree(desk)
    assert waiting
    getattr(desk, how)()
    until(lambda: alive(waiting) == set())


def test_a_warm_agent_sees_only_what_its_session_would_give_it(desk: Desk) -> None:
    (desk.bench.project / "a.txt").write_text("a")
    desk.ended(desk.start(STEPS, linger=0, env=["OF_THE_FIRST=1"]))
    warm(desk)
    until(lambda: _variables_of_agents(desk, b"OF_THE_FIRST=1") == {True})
    session = desk.start(STEPS, linger=3600, env=["OF_THE_SECOND=2"])
    desk.ended(session)
    assert _variables_of_agents(desk, b"OF_THE_SECOND=2") == {False, True}  # one each


def _variables_of_agents(desk: Desk, variable: bytes) -> set[bool]:
    found = set()
    for pid in tree(desk):
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except FileNotFoundError:
            continue
        if any(one.startswith(b"OF_THE_") for one in environment):
            assert len([one for one in environment if one.startswith(b"OF_THE_")]) == 1
            found.add(variable in environment)
    return found


def test_the_service_says_how_many_are_warm(desk: Desk) -> None:
    desk.ended(desk.start(STEPS, linger=0))
    warm(desk)
    assert "1 warm agents" in desk.bench.run("serve", "--status").stdout
