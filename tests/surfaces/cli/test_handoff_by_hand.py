"""`tillerman handoff`: another agent takes over a session, and keeps it."""

import json
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.surfaces.conftest import MAX_WAIT, Bench, Program

ECHO = Path(__file__).parents[2] / "agents" / "acp" / "acp_program.py"  # it repeats its prompt


@pytest.fixture
def two(bench: Bench) -> Bench:
    """Other agents besides mock, and a session of mock that stopped half-way."""
    folder = bench.home.parent / "tillerman"
    folder.mkdir()
    command = f"{sys.executable} {ECHO} --acp"
    agents = [f'[agents.{name}]\nacp = "{command}"\n' for name in ("echo", "again")]
    (folder / "config.toml").write_text("".join(agents))
    half = [{"write": "a.txt", "text": "1\n"}, {"say": "Half."}]
    assert bench.mock(half, "--approve", "auto").returncode == 0
    return bench


def row(bench: Bench, session: str = "last") -> dict[str, Any]:
    listed = json.loads(bench.run("sessions", "list", "--json").stdout)
    [found] = [one for one in listed if session in (one["id"], "last")]
    return dict(found)


def events(stdout: str) -> list[dict[str, Any]]:
    return [json.loads(line)["event"] for line in stdout.splitlines()]


def test_the_next_agent_is_sent_the_work_done_and_the_task(two: Bench) -> None:
    done = two.run("handoff", "last", "-a", "echo", "Now the rest.")

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("0 before; you said ")
    for part in ("a.txt", "Half.", "Now the rest."):
        assert part in done.stdout
    assert "mock hands over to echo" in done.stderr
    assert row(two)["agent"] == "echo"


def test_without_a_prompt_it_continues_the_task(two: Bench) -> None:
    done = two.run("handoff", row(two)["id"][:6], "--agent", "echo")

    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("Continue with the task.\n")


def test_json_has_the_handover_in_the_log(two: Bench) -> None:
    done = two.run("handoff", "last", "-a", "echo", "--json", "Now the rest.")

    assert done.returncode == 0, done.stderr
    reported = events(done.stdout)
    kinds = [event["type"] for event in reported]
    assert kinds.count("turn_started") == kinds.count("turn_ended") == 1
    [started] = [event for event in reported if event["type"] == "turn_started"]
    assert started["prompt"] == "Now the rest."
    assert {"type": "agent_started", "agent": "echo"}.items() <= reported[0].items()
    notice = {"level": "info", "kind": "handoff", "text": "mock hands over to echo"}
    assert {"type": "notice", **notice} in reported
    [account] = [event for event in reported if event["type"] == "user_message"]
    assert (account["how"], "Half." in account["text"]) == ("handoff", True)

    summary = two.run("handoff", "last", "-a", "again", "--json=summary", "Mine.")
    result = json.loads(summary.stdout.splitlines()[-1])
    assert (result["type"], result["agent"], result["status"]) == ("result", "again", "completed")


def test_a_resume_continues_with_the_new_agent_which_remembers(two: Bench) -> None:
    session = row(two)["id"]
    two.run("handoff", "last", "-a", "echo", "Now the rest.")

    more = two.run("run", "--resume", session, "--json=summary", "And more.")

    result = json.loads(more.stdout.splitlines()[-1])
    assert (result["agent"], result["session"]) == ("echo", session)
    assert result["text"].endswith("you said And more.")  # its own memory, no account again
    assert not result["text"].startswith("0 before")
    back = two.run("run", "--resume", session, "-a", "mock", "hello")
    assert (back.returncode, "tillerman handoff" in back.stderr) == (2, True)


def test_an_unknown_agent_changes_nothing(two: Bench) -> None:
    before = row(two)
    done = two.run("handoff", "last", "-a", "ekho", "go")

    assert done.returncode == 2
    assert "error: " in done.stderr
    assert "echo" in done.stderr  # who was meant
    assert row(two) == before


def test_the_current_agent_is_not_another_agent(two: Bench) -> None:
    session = row(two)["id"]
    done = two.run("handoff", "last", "-a", "mock", "go")

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        f"error: session {session} already uses mock",
        f"hint: `tillerman run --resume {session}` resumes it",
    ]


def test_a_session_that_does_not_exist_is_wrong_usage(two: Bench) -> None:
    assert two.run("handoff", "nobody", "-a", "echo", "go").returncode == 2
    assert two.run("handoff", "last", "go").returncode == 2  # to whom?


def test_a_working_session_is_not_handed_over(two: Bench) -> None:
    steps = json.dumps([{"say": "Working."}, {"run": "sleep 60"}])
    working = two.start("run", "-c", "--approve", "auto", "--json", steps)
    wait_for(working, b"Working.")
    try:
        done = two.run("handoff", "last", "-a", "echo", "go")
    finally:
        working.send_signal(signal.SIGINT)
        working.wait(MAX_WAIT)

    session = row(two)
    assert (done.returncode, done.stdout, done.stderr.splitlines()) == (
        1,
        "",
        [
            f"error: session {session['id']} is already running in process {working.pid}",
            f"hint: `tillerman sessions follow {session['id']}` follows it",
        ],
    )
    assert session["agent"] == "mock"
    assert two.run("handoff", "last", "-a", "echo", "go").returncode == 0


def wait_for(process: Program, words: bytes) -> None:
    assert process.stdout
    deadline = time.monotonic() + MAX_WAIT
    while words not in process.stdout.readline():
        assert time.monotonic() < deadline
