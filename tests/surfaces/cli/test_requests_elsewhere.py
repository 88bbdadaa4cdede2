"""Requests on other terminals: watched, answered there, left open by a harness that died."""

import json
import re
import signal
from typing import Any

import pytest

from tests.surfaces.conftest import Bench, Program, wait_for_line, wait_until

ASKS = json.dumps([{"say": "I write."}, {"write": "a.txt", "text": "x\n"}, {"say": "Done."}])
READS = json.dumps([{"read": "a.txt"}, {"run": "true"}, {"say": "Read."}])


def entry(process: Program, words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(wait_for_line(process, words))
    return found


def watcher(bench: Bench, *words: str) -> Program:
    """Starts a watcher, and waits until it would report a new session."""
    folder = bench.home.parent / "tillerman/state/watchers"
    before = len(list(folder.glob("*"))) if folder.exists() else 0
    process = bench.start("requests", "watch", *words)
    wait_until(lambda: folder.exists() and len(list(folder.glob("*"))) > before)
    return process


def test_a_watcher_sees_requests_of_sessions_that_begin_later(bench: Bench) -> None:
    watching = watcher(bench, "--json")
    owners = [bench.start("run", "-a", "mock", "--approve", "ask", "--json", ASKS) for _ in "ab"]
    asked = [entry(owner, "permission_requested") for owner in owners]
    seen = [entry(watching, "permission_requested") for _ in owners]
    assert sorted(seen, key=str) == sorted(asked, key=str)
    for one in reversed(asked):
        name = f"{one['session']}/{one['event']['request_id']}"
        assert bench.run("requests", "answer", name, "allow").returncode == 0
        resolved = entry(watching, "request_answered")
        assert (resolved["session"], resolved["event"]["answer"]) == (
            one["session"],
            {"option": "allow"},
        )
    assert [owner.wait(20) for owner in owners] == [0, 0]
    assert watching.poll() is None
    watching.send_signal(signal.SIGINT)
    assert watching.wait(20) == 130
    assert list((bench.home.parent / "tillerman/state/watchers").iterdir()) == []


def test_a_watcher_that_comes_later_sees_waiting_requests(bench: Bench) -> None:
    owner = bench.start("run", "-a", "mock", "--approve", "ask", "--json", ASKS)
    asked = entry(owner, "permission_requested")
    assert entry(bench.start("requests", "watch", "--json"), "permission_requested") == asked


def test_requests_the_policy_answers_are_not_sent_to_watchers(bench: Bench) -> None:
    (bench.project / "a.txt").write_text("x\n")
    watching = watcher(bench, "--json")
    for preset in ("auto", "readonly"):
        assert bench.run("run", "-a", "mock", "--approve", preset, ASKS).returncode == 0
    owner = bench.start("run", "-a", "mock", "--approve", "ask", "--json", ASKS)
    assert watching.stdout
    assert json.loads(watching.stdout.readline()) == entry(owner, "permission_requested")


def test_people_read_the_next_step_and_the_answer(bench: Bench) -> None:
    watching = watcher(bench)
    owner = bench.start("run", "-a", "mock", "--approve", "ask", ASKS)
    assert re.fullmatch(r"\d\d:\d\d:\d\d  Write a\.txt\n", wait_for_line(watching, "Write"))
    command = wait_for_line(watching, "tillerman requests answer").split()
    assert bench.run(*command[1:-1], "deny", "--note", "not now").returncode == 0
    assert wait_for_line(watching, "→").endswith("Write a.txt → denied via command line: not now\n")
    assert owner.wait(20) == 0


def test_a_watcher_answers_with_a_key_one_session_after_the_other(bench: Bench) -> None:
    terminal = bench.terminal("requests", "watch")
    terminal.wait_for("waiting for requests")
    first = bench.start("run", "-a", "mock", "--approve", "ask", "--json", ASKS)
    at = terminal.wait_for("[y] allow")
    second = bench.start("run", "-a", "mock", "--approve", "ask", "--json", ASKS)
    at = terminal.wait_for("1 more waiting", at)
    terminal.press("y")
    at = terminal.wait_for("→ allowed by you", at)
    assert first.wait(20) == 0
    assert second.poll() is None
    terminal.press("n")
    terminal.wait_for("→ denied by you", at)
    assert second.wait(20) == 0
    terminal.wait_for("waiting for requests", at)
    terminal.interrupt()
    assert terminal.end() == 130
    assert terminal.modes[:6] == terminal.before[:6]


def test_a_request_of_a_killed_harness_is_listed_answered_and_used(bench: Bench) -> None:
    watching = watcher(bench)
    owner = bench.start("run", "-a", "mock", "--approve", "ask", "--json", ASKS)
    asked = entry(owner, "permission_requested")
    session = asked["session"]
    wait_for_line(watching, "Write a.txt")
    owner.send_signal(signal.SIGKILL)
    rests = (
        f'left open; its session is not running, to continue: tillerman run --resume {session} "…"'
    )
    assert wait_for_line(watching, "left open") == f"          {rests}\n"

    listed = bench.run("requests", "list").stdout
    assert rests in listed.splitlines()
    (waiting,) = json.loads(bench.run("requests", "list", "--json").stdout)
    assert (waiting["session"], waiting["idle"]) == (session, True)
    name = f"{session}/{asked['event']['request_id']}"
    answered = bench.run("requests", "answer", name, "allow")
    assert (answered.returncode, answered.stdout) == (0, f"{rests}; the answer is applied then\n")
    assert wait_for_line(watching, "→").endswith(
        "→ allowed via command line, applied when the agent asks again\n"
    )
    assert bench.run("requests", "list").stdout == "no open requests\n"
    assert bench.run("requests", "answer", name, "allow").returncode == 1

    resumed = bench.run("run", "--resume", session, ASKS)
    assert (resumed.returncode, resumed.stdout) == (0, "Done.\n")
    assert (bench.project / "a.txt").read_text() == "x\n"


def test_a_run_without_a_terminal_names_the_presets_at_its_first_request_only(bench: Bench) -> None:
    steps = json.dumps([{"write": f"{name}.txt", "text": "x"} for name in "abc"])
    words = ("run", "-a", "mock", "--approve", "ask", "--request-timeout", "1")
    for more in ((), ("--json",)):
        done = bench.run(*words, *more, steps)
        assert done.stderr.count("waiting for an answer until") == 3
        assert done.stderr.count("--approve edits or auto") == 1


def test_a_run_without_a_terminal_reports_its_timeout_and_then_denies(bench: Bench) -> None:
    done = bench.run("run", "-a", "mock", "--approve", "ask", "--request-timeout", "1", ASKS)
    assert done.returncode == 0
    assert re.search(
        r"^waiting for an answer until \d\d:\d\d:\d\d \(1\.0 s\), then denied: Write a\.txt\n"
        r"  tillerman requests answer \w+/r1\.3 allow\n"
        r"  a run without a terminal asks less with --approve edits or auto, never with readonly or"
        r" none\n"
        r"  denied because there was no answer in time: No answer within 1 seconds, so this",
        done.stderr,
        re.MULTILINE,
    )
    assert not (bench.project / "a.txt").exists()


@pytest.mark.parametrize(
    ("setting", "flags", "limit"),
    [
        ("", (), "5 min 0 s"),
        ("600", (), "10 min 0 s"),
        ("600", ("--request-timeout", "60"), "1 min"),
    ],
)
def test_the_timeout_of_a_run_without_a_terminal(
    bench: Bench, setting: str, flags: tuple[str, ...], limit: str
) -> None:
    more = {"TILLERMAN_LIMITS_REQUEST": setting} if setting else {}
    owner = bench.start("run", "-a", "mock", "--approve", "ask", *flags, ASKS, **more)
    assert owner.stderr
    while not (line := owner.stderr.readline().decode()).startswith("waiting for an answer"):
        assert line
    assert f"({limit}" in line


def test_a_request_with_an_unprintable_id_has_a_typeable_id(
    bench: Bench,
) -> None:
    ids = ["a/b", "r\x1b[2J1", "-x --yes", "$(touch pwned)", "ünï", ""]
    asks = [
        {"send": {"type": "ask", "request_id": id, "tool": "run", "input": {"command": "make"}}}
        for id in ids
    ]
    owner = bench.start(
        "run", "-a", "mock", "--approve", "ask", "--json", json.dumps([*asks, {"listen": 30}])
    )
    for _ in ids:
        wait_for_line(owner, "permission_requested")
    waiting = json.loads(bench.run("requests", "list", "--json").stdout)
    names = ["a-b", "r-2J1", "x---yes", "touch-pwned", "n", "request"]
    assert [one["request"]["request_id"] for one in waiting] == names
    session = waiting[0]["session"]
    for shown in names:
        done = bench.run("requests", "answer", f"{session}/{shown}", "deny")
        assert (shown, done.returncode, done.stderr) == (shown, 0, "")
    assert bench.run("requests", "list").stdout == "no open requests\n"
