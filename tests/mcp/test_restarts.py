"""Processes outlive the server that started them, and belong only to their session."""

from __future__ import annotations

import os
import re
import signal
from typing import Any

import pytest

from tests.mcp.mcp_desk import TALKER, Machine, pid_of, started, text, tree, until

pytestmark = pytest.mark.timeout(180)

BY_ID: dict[str, dict[str, Any]] = {
    "poll_process": {},
    "read_process_output": {},
    "search_process_output": {"pattern": "x"},
    "kill_process": {},
    "write_process_input": {"text": "echo\n"},
}


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def session(machine: Machine) -> str:
    found: str = machine.sessions()[0]["id"]
    return found


@pytest.mark.parametrize("how", ["kill -9", "goes"])
def test_background_processes_are_found_again(machine: Machine, how: str) -> None:
    wire = machine.greeted("--approve", "auto")
    wire.call("write_file", path="a.txt", content="one\n")
    process = started(wire, f"{TALKER} # 71.881")
    status = wire.call("poll_process", process_id=process)
    short = started(wire, "exec sleep 71.882", mode="async")
    waiting = wire.begin("execute_shell", command="exec sleep 71.883", timeout=60)
    until(lambda: tree("71.882") and tree("71.883"))
    before = session(machine)

    if how == "goes":
        assert wire.end() == 0
    else:
        wire.process.send_signal(signal.SIGKILL)
        wire.wait()
    assert not wire.answered(waiting) or how == "goes"
    until(lambda: not tree("71.882") and not tree("71.883"))
    assert alive(pid_of(status))

    again = machine.greeted("--approve", "auto")
    assert session(machine) == before and len(machine.sessions()) == 1
    listed = again.call("list_processes", status_filter="live")["_meta"]["tillerman/result"]
    assert [one["process_id"] for one in listed["processes"]] == [process]
    assert pid_of(again.call("poll_process", process_id=process)) == pid_of(status)
    assert "ready" in text(again.call("read_process_output", process_id=process))
    assert not again.call("write_process_input", process_id=process, text="back\n")["isError"]
    until(lambda: "heard back" in text(again.call("read_process_output", process_id=process)))
    ended = again.call("poll_process", process_id=short)["_meta"]["tillerman/result"]
    assert ended["status"] == "killed" and ended["why"]

    assert again.end() == 0
    assert alive(pid_of(status))
    assert machine.run("sessions", "delete", "-y", before).returncode == 0
    until(lambda: not alive(pid_of(status)))
    assert not (machine.tillerman / "state" / "processes" / before).exists()
    assert machine.sessions() == []


def test_without_background_processes_another_server_starts_a_new_session(machine: Machine) -> None:
    first = machine.greeted()
    assert first.end() == 0
    second = machine.greeted()
    assert len(machine.sessions()) == 2
    assert second.end() == 0


def test_a_session_can_be_continued_by_name(machine: Machine) -> None:
    wire = machine.greeted("--approve", "auto")
    process = started(wire, "echo kept", mode="async")
    until(lambda: "kept" in text(wire.call("read_process_output", process_id=process)))
    assert wire.end() == 0
    again = machine.greeted("--resume", session(machine))
    assert "kept" in text(again.call("read_process_output", process_id=process))
    assert len(machine.sessions()) == 1
    taken = machine.run("mcp", "serve", "--resume", session(machine), input=b"")
    assert taken.returncode != 0 and "Traceback" not in taken.stderr
    assert again.end() == 0
    elsewhere = machine.folder / "elsewhere"
    elsewhere.mkdir()
    other = machine.run("mcp", "serve", "--resume", session(machine), cwd=elsewhere, input=b"")
    assert other.returncode == 2 and "is not an MCP server session of" in other.stderr


def test_two_servers_of_one_folder_do_not_see_each_others_processes(machine: Machine) -> None:
    mine = machine.greeted("--approve", "auto")
    process = started(mine)
    theirs = machine.greeted("--approve", "auto")
    assert len(machine.sessions()) == 2
    known = theirs.call("list_processes")["_meta"]["tillerman/result"]["processes"]
    assert known == []
    for tool, more in BY_ID.items():
        messages = [theirs.call(tool, process_id=name, **more) for name in (process, "p0123456789")]
        assert all(result["isError"] for result in messages), tool
        there, nowhere = (text(result) for result in messages)
        assert there.replace(process, "*") == nowhere.replace("p0123456789", "*"), tool
        assert "not found or access denied" in there
    errors = [
        theirs.ask("resources/read", {"uri": f"tillerman://processes/{name}/stdout"})["error"]
        for name in (process, "p0123456789")
    ]
    assert str(errors[0]).replace(process, "*") == str(errors[1]).replace("p0123456789", "*")
    assert process not in str(theirs.ask("resources/list"))
    assert not mine.call("poll_process", process_id=process)["isError"]
    assert "running" in text(mine.call("poll_process", process_id=process))


def test_of_two_sessions_that_were_left_the_newest_is_continued(machine: Machine) -> None:
    wires = [machine.greeted("--approve", "auto") for _ in range(3)]
    processes = [started(wire) for wire in wires]
    assert [wire.end() for wire in wires] == [0, 0, 0]
    again = [machine.greeted("--approve", "auto") for _ in range(3)]
    found = [
        [
            one["process_id"]
            for one in wire.call("list_processes")["_meta"]["tillerman/result"]["processes"]
        ]
        for wire in again
    ]
    assert found == [[process] for process in reversed(processes)]
    assert len(machine.sessions()) == 3


def test_the_twenty_first_process_is_refused(machine: Machine) -> None:
    wire = machine.greeted("--approve", "auto")
    calls = [
        wire.begin("execute_shell", command="sleep 72.991", run_mode="background")
        for _ in range(21)
    ]
    results = [wire.called(call) for call in calls]
    [refused] = [result for result in results if result["isError"]]
    assert "20 processes of this session are already running" in text(refused)
    assert "kill_process" in text(refused)
    one = results[0]["_meta"]["tillerman/result"]["process_id"]
    wire.call("kill_process", process_id=one)
    assert not wire.call("execute_shell", command="echo room again")["isError"]


LOST = re.compile(r"(p[0-9a-f]{10}) was lost .*`tillerman mcp serve --resume (\S+)`", re.DOTALL)


@pytest.mark.parametrize("mode", ["async", pytest.param("background", marks=pytest.mark.torture)])
def test_a_process_that_ended_with_its_server_is_lost_and_not_unknown(
    machine: Machine, mode: str
) -> None:
    """A background process ends when its session is no longer served."""
    wire = machine.greeted("--approve", "auto")
    process = started(wire, "echo kept; exec sleep 73.511", mode=mode)
    until(lambda: "kept" in text(wire.call("read_process_output", process_id=process)))
    before = session(machine)
    assert wire.end() == 0
    until(lambda: not tree("73.511"), 60)

    other = machine.greeted("--approve", "auto")
    assert session(machine) != before
    for tool, more in BY_ID.items():
        found = LOST.search(text(other.call(tool, process_id=process, **more)))
        assert found and found.groups() == (process, before), tool
    assert other.end() == 0
    again = machine.greeted("--approve", "auto", "--resume", before)
    assert "kept" in text(again.call("read_process_output", process_id=process))


def test_a_process_of_another_folder_is_unknown_though_its_server_has_ended(
    machine: Machine,
) -> None:
    wire = machine.greeted("--approve", "auto")
    process = started(wire, "exec sleep 73.512", mode="async")
    assert wire.end() == 0
    elsewhere = machine.folder / "elsewhere"
    elsewhere.mkdir()
    other = machine.greeted("--approve", "auto", cwd=elsewhere)
    message = text(other.call("poll_process", process_id=process))
    assert "not found or access denied" in message and "--resume" not in message
