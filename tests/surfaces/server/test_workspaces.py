"""Agents, processes and the repository over HTTP."""

from __future__ import annotations

import subprocess

import pytest

from tests.surfaces.conftest import wait_until
from tests.surfaces.server.service_desk import Desk

pytestmark = pytest.mark.timeout(120)


def test_agents_tell_their_state_models_and_servers(house: Desk) -> None:
    agents = {one["name"]: one for one in house.get("/agents")}
    assert agents["mock"]["ready"] is True
    assert agents["codex"]["installed"]["path"] is None
    assert agents["codex"]["ready"] is False
    assert house.get("/agents/mock")["can"] == agents["mock"]["can"]
    assert [one["id"] for one in house.get("/agents/mock/models")] == ["mock-quick", "mock-deep"]
    for path, status, kind in (
        ("/agents/nobody", 404, "agent_unknown"),
        ("/agents/mock/servers", 422, "unsupported"),
        ("/agents/codex/servers", 424, "agent_not_installed"),
    ):
        refused = house.call("GET", path)
        assert (refused.status, refused.kind) == (status, kind), refused


def test_the_repository_of_a_session_has_a_next_step(desk: Desk) -> None:
    for words in (["init", "-q", "-b", "work"], ["commit", "-q", "--allow-empty", "-m", "x"]):
        subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words],
            cwd=desk.bench.project,
            env=desk.bench.environment,
            check=True,
        )
    session = desk.start([{"write": "new.txt", "text": "x"}])
    desk.ended(session)
    status = desk.get(f"/sessions/{session}/repository")
    assert (status["branch"], status["status"]) == ("work", "DIRTY")
    assert (status["action"], status["untracked"]) == ("Commit & Push", 1)


def test_a_session_outside_a_repository_says_so(house: Desk) -> None:
    session = house.start([{"say": "x"}])
    refused = house.call("GET", f"/sessions/{session}/repository")
    assert (refused.status, refused.kind) == (404, "no_repository")


def test_processes_are_listed_read_and_ended(house: Desk) -> None:
    pytest.importorskip("mcp")
    command = "printf 'one\\ntwo\\n'; sleep 600"
    call = {
        "call": "tillerman.execute_shell",
        "input": {"command": command, "run_mode": "background"},
    }
    session = house.start([call, {"say": "x"}], workspace_tools=True, linger=3600)
    house.ended(session)
    (process,) = house.get(f"/processes?session={session}")
    path = f"/processes/{process['id']}"
    wait_until(lambda: house.get(f"{path}/output")["text"] == "one\ntwo\n")
    assert house.get(path)["status"] == "running"
    part = house.get(f"{path}/output?offset=4&limit=2")
    assert (part["text"], part["offset"], part["next"], part["size"]) == ("tw", 4, 6, 8)
    house.post(f"{path}/kill")
    wait_until(lambda: house.get(path)["status"] == "killed")
    assert house.get(f"/processes?session={session}") == []
    again = house.call("POST", f"{path}/kill")
    assert (again.status, again.kind) == (409, "process_ended")
    missing = house.call("GET", "/processes/nothing")
    assert (missing.status, missing.kind) == (404, "process_not_found")
