"""Calls of a client are decided by the policy, by a user of another process, or by the timeout."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tests.mcp.mcp_desk import Machine, Wire, text, until

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def wire(house: Machine) -> Wire:
    """A server that requests approval."""
    return house.greeted("--approve", "ask", "--request-timeout", "60")


def waiting(machine: Machine) -> dict[str, Any]:
    """The one open request, as another process reads it."""
    [found] = until(lambda: machine.json("requests", "list", "--json"))
    request: dict[str, Any] = found["request"]
    return request


def answer(machine: Machine, *words: str) -> dict[str, Any]:
    """Another process answers the open request."""
    request = waiting(machine)
    done = machine.run("requests", "answer", request["request_id"], *words)
    assert done.returncode == 0, done.stderr
    return request


def test_a_command_waits_for_a_person_elsewhere_who_allows_it(house: Machine, wire: Wire) -> None:
    call = wire.begin("execute_shell", command="touch allowed")
    request = answer(house, "allow")
    result = wire.called(call)
    assert not result["isError"], text(result)
    assert (house.project / "allowed").exists()
    assert request["input"] == {"command": "touch allowed"}


ELSEWHERE = ("../beside.txt", "/etc/hostname", "src/../../beside.txt")
CALLS: dict[str, dict[str, Any]] = {
    "read_file": {},
    "list_directory": {},
    "search_files": {"pattern": "x"},
    "export_file": {},
    "export_zip": {"export_as": "all.zip"},
    "write_file": {"content": "x"},
    "replace_text_in_file": {"old_text": "a", "new_text": "b"},
    "replace_lines_in_file": {"start": 1, "end": 1, "new_text": "b", "expected_old_text": "a"},
    "delete_file": {},
    "create_directory": {},
    "move_file": {"destination": "here.txt"},
    "import_file": {"source": "/etc/hostname"},
}


def named_in(schema: dict[str, Any]) -> str | None:
    """The argument of a tool that names a file of the workspace."""
    return next((key for key in ("path", "paths", "source") if key in schema["properties"]), None)


def test_a_file_outside_the_workspace_is_refused_without_asking_anybody(
    house: Machine, wire: Wire
) -> None:
    tools = {one["name"]: one["inputSchema"] for one in wire.ask("tools/list")["result"]["tools"]}
    with_files = {name: named_in(schema) for name, schema in tools.items() if named_in(schema)}
    assert set(with_files) == set(CALLS)
    for tool, key in with_files.items():
        for path in ELSEWHERE:
            given = {**CALLS[tool], key: [path] if key == "paths" else path}
            began = time.monotonic()
            result = wire.called(wire.begin(tool, **given))
            assert result["isError"], (tool, path)
            assert "outside the workspace" in text(result), (tool, path, text(result))
            assert time.monotonic() - began < 10, (tool, path)
    assert house.json("requests", "list", "--json") == []


def test_standard_error_names_what_waits_and_the_command_that_answers_it(
    house: Machine, wire: Wire
) -> None:
    call = wire.begin("execute_shell", command="touch named")
    request = waiting(house)
    told = until(lambda: f"{request['request_id']} allow" in wire.errors and wire.errors)
    assert "waiting for an answer until" in told and "touch named" in told
    answer(house, "deny")
    assert wire.called(call)["isError"]


def test_a_denial_carries_a_note(house: Machine, wire: Wire) -> None:
    call = wire.begin("execute_shell", command="touch denied")
    answer(house, "deny", "--note", "not on a Sunday")
    result = wire.called(call)
    assert result["isError"] and "not on a Sunday" in text(result)
    assert not (house.project / "denied").exists()


def test_a_person_changes_the_command(house: Machine, wire: Wire) -> None:
    call = wire.begin("execute_shell", command="touch asked; echo done")
    answer(house, "allow", "--input", json.dumps({"command": "touch changed; echo done"}))
    assert "done" in text(wire.called(call))
    assert (house.project / "changed").exists() and not (house.project / "asked").exists()


def test_a_changed_file_is_written_as_changed(house: Machine, wire: Wire) -> None:
    call = wire.begin("write_file", path="a.txt", content="asked")
    answer(house, "allow", "--input", json.dumps({"path": "b.txt", "content": "changed"}))
    assert not wire.called(call)["isError"]
    assert (house.project / "b.txt").read_text() == "changed"
    assert not (house.project / "a.txt").exists()


def test_an_invalid_change_does_nothing(house: Machine, wire: Wire) -> None:
    call = wire.begin("execute_shell", command="touch senseless")
    answer(house, "allow", "--input", json.dumps({"command": 7}))
    result = wire.called(call)
    assert result["isError"] and "command" in text(result)
    assert not (house.project / "senseless").exists()


def test_input_written_to_a_process_is_decided_as_a_command(house: Machine, wire: Wire) -> None:
    call = wire.begin("execute_shell", command="sh", run_mode="background")
    answer(house, "allow")
    process = wire.called(call)["_meta"]["tillerman/result"]["process_id"]
    write = wire.begin("write_process_input", process_id=process, text="touch typed\n")
    request = answer(house, "deny")
    assert (request["tool"], request["input"]) == ("Bash", {"command": "touch typed\n"})
    assert wire.called(write)["isError"]
    write = wire.begin("write_process_input", process_id=process, text="touch typed\n")
    answer(house, "allow", "--input", json.dumps({"command": "touch other\n"}))
    assert not wire.called(write)["isError"]
    until((house.project / "other").exists)
    assert not (house.project / "typed").exists()
    kill = wire.begin("kill_process", process_id=process)
    if not wire.answered(kill) and house.json("requests", "list", "--json"):
        answer(house, "allow")
    wire.called(kill)


def test_reads_need_no_approval(house: Machine, wire: Wire) -> None:
    assert not wire.call("list_directory")["isError"]
    assert not wire.call("list_processes")["isError"]


def test_calls_that_wait_do_not_hold_up_others(house: Machine, wire: Wire) -> None:
    call = wire.begin("execute_shell", command="touch later")
    request = waiting(house)
    assert not wire.call("list_directory")["isError"]
    assert not wire.answered(call)
    answer(house, "deny")
    assert wire.called(call)["isError"]
    log = house.log()
    asked = [e["event"] for e in log if e["event"]["type"] == "permission_requested"]
    answers = {
        e["event"]["request_id"]: e["event"]["by"]
        for e in log
        if e["event"]["type"] == "request_answered"
    }
    assert answers[request["request_id"]] == "person"
    assert {one["request_id"] for one in asked} == set(answers)


def test_always_is_remembered_for_the_session(house: Machine, wire: Wire) -> None:
    call = wire.begin("execute_shell", command="touch again")
    answer(house, "always", "-y")
    assert not wire.called(call)["isError"]
    assert not wire.call("execute_shell", command="touch again")["isError"]


def test_a_client_that_cancels_its_call_withdraws_the_request(house: Machine, wire: Wire) -> None:
    call = wire.begin("execute_shell", command="touch withdrawn")
    waiting(house)
    wire.report("notifications/cancelled", {"requestId": call})
    until(lambda: house.json("requests", "list", "--json") == [])
    assert not (house.project / "withdrawn").exists()
    [end] = [e["event"] for e in house.log() if e["event"]["type"] == "tool_finished"][-1:]
    assert end["outcome"] == "cancelled"


def test_an_unanswered_request_is_denied(machine: Machine) -> None:
    wire = machine.greeted("--approve", "ask", "--request-timeout", "0.3")
    result = wire.call("execute_shell", command="touch made")
    assert result["isError"] and "No answer" in text(result)
    assert not (machine.project / "made").exists()
    by = [e["event"]["by"] for e in machine.log() if e["event"]["type"] == "request_answered"]
    assert by == ["timeout"]


WRITES: list[tuple[str, dict[str, Any]]] = [
    ("execute_shell", {"command": "touch made"}),
    ("execute_shell", {"command": "touch made", "run_mode": "background"}),
    ("write_file", {"path": "made", "content": "x"}),
    (
        "replace_lines_in_file",
        {"path": "kept", "start": 1, "end": 1, "new_text": "x", "expected_old_text": "kept"},
    ),
    ("replace_text_in_file", {"path": "kept", "old_text": "kept", "new_text": "x"}),
    ("move_file", {"source": "kept", "destination": "made"}),
    ("delete_file", {"path": "kept"}),
    ("create_directory", {"path": "made"}),
    ("import_file", {"source": "/etc/hostname", "path": "made"}),
]


@pytest.mark.parametrize("approve", ["readonly", "none"])
def test_nothing_is_created_where_nothing_may_be(machine: Machine, approve: str) -> None:
    (machine.project / "kept").write_text("kept\n")
    wire = machine.greeted("--approve", approve)
    for tool, arguments in WRITES:
        assert wire.call(tool, **arguments)["isError"], tool
    assert [path.name for path in machine.project.iterdir()] == ["kept"]
    assert (machine.project / "kept").read_text() == "kept\n"
    assert wire.call("read_file", path="kept")["isError"] == (approve == "none")


def test_a_variable_cannot_change_what_was_allowed(machine: Machine) -> None:
    """It may name another program to run, which makes it another command."""
    machine.tillerman.mkdir(exist_ok=True)
    (machine.tillerman / "config.toml").write_text(
        '[[rules]]\nallow = true\ncommand = "git status"\n'
    )
    wire = machine.greeted("--approve", "ask", "--request-timeout", "1")
    plain = wire.call("execute_shell", command="git status")
    assert "not a git repository" in text(plain)
    marker = machine.folder / "marker"
    evil = {
        "GIT_PAGER": (f"touch {marker}", "No answer"),
        "GIT_TRACE_SETUP": (str(marker), "writes outside the workspace"),
    }
    for name, (value, reason) in evil.items():
        changed = wire.call("execute_shell", command="git status", env={name: value})
        assert changed["isError"] and reason in text(changed)
        assert not marker.exists()
    wrong = wire.call("execute_shell", command="true", env={"A=B; touch x": "1"})
    assert wrong["isError"] and "env" in text(wrong)


@pytest.mark.parametrize("token", ["t1", None])
def test_a_client_that_asked_for_progress_learns_that_its_call_waits(
    house: Machine, wire: Wire, token: str | None
) -> None:
    wire.notes.clear()
    meta = {"_meta": {"progressToken": token}} if token else {}
    arguments = {"command": "touch waited; echo out; sleep 2.5"}
    call = wire.request("tools/call", {"name": "execute_shell", "arguments": arguments, **meta})
    request = waiting(house)
    if token:
        wire.note(lambda messages: "needs approval" in messages["params"]["message"])
    else:
        time.sleep(2.5)
    done = house.run("requests", "answer", request["request_id"], "allow")
    assert done.returncode == 0, done.stderr
    assert not wire.called(call)["isError"]
    messages = [note["params"] for note in wire.notes]
    if token is None:
        assert messages == []
        return
    assert {one["progressToken"] for one in messages} == {token}
    seconds = [one["progress"] for one in messages]
    assert seconds == sorted(set(seconds))  # each is more than the one before
    assert messages[-1]["message"] == "out"
