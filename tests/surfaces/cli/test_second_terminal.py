"""A second terminal on a running session: same entries, answers its requests, ends its turn."""

import json
import signal

from tests.surfaces.conftest import Bench, wait_for_line
from tillerman.core.events import decode_entry

ASKS = json.dumps([{"say": "I write."}, {"write": "a.txt", "text": "x\n"}, {"say": "Done."}])
HANGS = json.dumps([{"say": "Before."}, {"hang": True}])


def session_of(line: str) -> str:
    return str(json.loads(line)["session"])


def test_a_follower_sees_the_same_entries_as_the_owner(bench: Bench) -> None:
    owner = bench.start("run", "-a", "mock", "--approve", "ask", "--json", ASKS)
    line = wait_for_line(owner, "permission_requested")
    session = session_of(line)
    follower = bench.start("sessions", "follow", session, "--json")
    assert wait_for_line(follower, "permission_requested") == line
    request = json.loads(line)["event"]["request_id"]
    answered = bench.run("requests", "answer", f"{session}/{request}", "allow")
    assert answered.returncode == 0, answered.stderr
    rest_of_owner, _ = owner.communicate(timeout=20)
    rest_of_follower, _ = follower.communicate(timeout=20)
    assert (owner.returncode, follower.returncode) == (0, 0)
    owners, followers = rest_of_owner.splitlines(), rest_of_follower.splitlines()
    # The owner's own view ends when the agent is idle; a follower also sees its process end.
    assert followers[: len(owners)] == owners
    assert {decode_entry(line).event.__class__.__name__ for line in followers[len(owners) :]} <= {
        "AgentExited"
    }
    since = bench.run("sessions", "follow", session, "--json", "--since", "3").stdout.splitlines()
    assert json.loads(since[0])["seq"] == 4


def test_a_request_is_answered_from_the_second_terminal(bench: Bench) -> None:
    owner = bench.start("run", "-a", "mock", "--approve", "ask", "--json", ASKS)
    session = session_of(wait_for_line(owner, "permission_requested"))
    terminal = bench.terminal("sessions", "follow", session)
    terminal.wait_for("[y] allow")
    terminal.press("y")
    assert terminal.end() == 0
    assert f"session {session} is not running" in terminal.text
    output, _ = owner.communicate(timeout=20)
    assert owner.returncode == 0
    assert b'"surface":"terminal"' in output
    assert (bench.project / "a.txt").exists()


def test_a_dialog_closes_when_another_terminal_answers(bench: Bench) -> None:
    terminal = bench.terminal("run", "-a", "mock", "--approve", "ask", ASKS)
    terminal.wait_for("[y] allow")
    (request,) = json.loads(bench.run("requests", "list", "--json").stdout)
    name = f"{request['session']}/{request['request']['request_id']}"
    assert bench.run("requests", "answer", name, "deny", "--note", "not now").returncode == 0
    assert terminal.end() == 0
    assert "→ denied via command line: not now" in terminal.text


def test_leaving_a_follower_does_not_affect_the_session(bench: Bench) -> None:
    owner = bench.start("run", "-a", "mock", "--approve", "ask", "--json", ASKS)
    line = wait_for_line(owner, "permission_requested")
    terminal = bench.terminal("sessions", "follow", session_of(line))
    terminal.wait_for("[y] allow")
    terminal.interrupt()
    assert terminal.end() == 130
    assert terminal.modes[:6] == terminal.before[:6]
    assert owner.poll() is None
    assert b"Traceback" not in terminal.raw


def test_the_second_terminal_cancels_and_prompts(bench: Bench) -> None:
    owner = bench.start("run", "-a", "mock", "--json", HANGS)
    session = session_of(wait_for_line(owner, "Before."))
    refused = bench.run("sessions", "prompt", session, "x", "--when-busy", "refuse")
    assert refused.returncode == 1
    assert refused.stderr.startswith(
        "error: the agent is still working on a turn in this session\nhint: "
    )
    busy = bench.run("run", "--resume", session, "x")
    assert busy.returncode == 1
    assert f"`tillerman sessions follow {session}`" in busy.stderr
    assert bench.run("sessions", "delete", session, "--yes").returncode == 1
    assert bench.run("sessions", "cancel", session).returncode == 0
    output, _ = owner.communicate(timeout=20)
    assert owner.returncode == 130
    assert b'"reason":"cancelled"' in output
    gone = bench.run("sessions", "cancel", session)
    assert gone.returncode == 1
    assert gone.stderr.startswith(f"error: session {session} is not running\nhint: ")


def test_after_the_owner_is_killed_the_second_takes_the_session_over(bench: Bench) -> None:
    owner = bench.start("run", "-a", "mock", "--json", HANGS)
    session = session_of(wait_for_line(owner, "Before."))
    follower = bench.start("sessions", "follow", session, "--json")
    wait_for_line(follower, "Before.")
    owner.send_signal(signal.SIGKILL)
    follower.communicate(timeout=20)
    assert follower.returncode == 0
    again = bench.run("run", "--resume", session, json.dumps([{"say": "Here again."}]))
    assert (again.returncode, again.stdout) == (0, "Here again.\n")
    ends = [
        json.loads(line)["event"]
        for line in bench.run("sessions", "show", session, "--json").stdout.splitlines()
        if "turn_ended" in line
    ]
    assert [end["reason"] for end in ends] == ["failed", "completed"]
    assert ends[0]["failure"]["kind"] == "harness_died"
