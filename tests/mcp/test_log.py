"""Calls of clients are logged like those of every session, without secrets."""

from __future__ import annotations

from typing import Any

import pytest

from tests.mcp.mcp_desk import Machine, Wire, started, text, until

pytestmark = pytest.mark.timeout(120)

SECRET = "tk-4f9a0c77b1e2d3-very-secret"


def of(log: list[dict[str, Any]], *kinds: str) -> list[dict[str, Any]]:
    return [entry["event"] for entry in log if entry["event"]["type"] in kinds]


def written(result: dict[str, Any]) -> int:
    size: int = result["_meta"]["tillerman/result"]["stdout_bytes"]
    return size


@pytest.fixture(scope="module")
def wire(house: Machine) -> Wire:
    words = ("--approve", "auto", "--env", f"FOO_TOKEN={SECRET}", "--env", "BAR_PASSWORD")
    return house.greeted(*words, env={"BAR_PASSWORD": SECRET[::-1]})


def test_each_call_is_logged_with_its_arguments_and_its_result(house: Machine, wire: Wire) -> None:
    wire.call("write_file", path="a.txt", content="one\n")
    wire.call("execute_shell", command="exit 3")
    wire.call("read_file", path="nothing", nonsense=1)
    log = house.log()
    calls = {event["call_id"]: event for event in of(log, "tool_started")}
    ends = {event["call_id"]: event for event in of(log, "tool_finished")}
    reported = [(call["tool"], call["name"], ends[key]["outcome"]) for key, call in calls.items()]
    assert reported[:3] == [
        ("Write", "tillerman.write_file", "completed"),
        ("Bash", "tillerman.execute_shell", "failed"),
        ("MCP", "tillerman.read_file", "failed"),
    ]
    assert all(key.startswith("tillerman-") for key in calls)
    first = next(iter(ends.values()))
    assert [part["type"] for part in first["content"]] == ["diff", "text"]
    asked = of(log, "permission_requested")
    answers = {event["request_id"]: event for event in of(log, "request_answered")}
    assert [(one["tool"], answers[one["request_id"]]["by"]) for one in asked[:2]] == [
        ("Write", "policy"),
        ("Bash", "policy"),
    ]
    assert {one["call_id"] for one in asked} <= set(calls)


def test_secrets_are_in_no_result_and_in_no_record(house: Machine, wire: Wire) -> None:
    shown = text(wire.call("execute_shell", command="echo $FOO_TOKEN; echo $BAR_PASSWORD >&2"))
    length = text(wire.call("execute_shell", command="printf %s $FOO_TOKEN | wc -c"))
    assert str(len(SECRET)) in length  # the command has it
    process = started(wire, f"echo $FOO_TOKEN; echo $BAR_PASSWORD; sleep 60 # {SECRET}")
    both = {"src": "stdout", "n": 5}
    until(lambda: written(wire.call("poll_process", process_id=process)) > 2 * len(SECRET))
    (house.project / "keys.txt").write_text(f"key={SECRET}\n")
    answers = [
        wire.call("poll_process", process_id=process, tail=both, wait_ms=500),
        wire.call("read_process_output", process_id=process, mode="range"),
        wire.call("search_process_output", process_id=process, pattern="tk-"),
        wire.call("read_file", path="keys.txt"),
        wire.call("search_files", pattern="key="),
        wire.call("write_file", path="more.txt", content=f"key={SECRET}\n"),
        wire.call("execute_shell", command=f"echo {SECRET}"),
        wire.call("read_file", path=SECRET),
        wire.call(SECRET),
        wire.call("list_processes"),
        wire.call("list_directory"),
        wire.ask("resources/read", {"uri": "tillerman://workspace"}),
        wire.ask("resources/read", {"uri": f"tillerman://processes/{process}/stdout"}),
        wire.ask("resources/read", {"uri": f"tillerman://{SECRET}"}),
        wire.ask("resources/list"),
    ]
    wire.call("kill_process", process_id=process)
    for reported in (shown, *map(str, answers)):
        assert SECRET not in reported and SECRET[::-1] not in reported
    assert SECRET not in str(house.log()) and SECRET[::-1] not in str(house.log())
    assert SECRET not in wire.errors
    found = [
        path
        for path in house.tillerman.rglob("*")
        if path.is_file()
        and any(one.encode() in path.read_bytes() for one in (SECRET, SECRET[::-1]))
    ]
    # The output of a process is stored unchanged, where only the user reads it.
    assert {path.name for path in found} <= {"stdout", "stderr"}
    assert all(path.stat().st_mode & 0o077 == 0 for path in found)


def test_a_session_of_a_client_is_listed_as_one(house: Machine, wire: Wire) -> None:
    session = house.sessions()[0]
    assert session["agent"] == "mcp" and session["cwd"] == str(house.project)
