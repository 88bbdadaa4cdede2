"""Pipelines on the command line: run, follow, answer, and go on; output and exit codes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.pipelines.run_desk import WITHIN, Desk

PIPELINE = """
inputs:
  word: {default: hello}
git: true
steps:
  - id: build
    agent: mock
    approve: auto
    prompt: '[{"write": "a.txt", "text": "a"}, {"say": "Built."}]'
  - {id: check, run: "echo {{ inputs.word }} > b.txt; echo said {{ inputs.word }}"}
"""
GATE = "  - {id: gate, review: 'Good?'}\n  - {id: after, run: note after}\n"


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    made = Desk(tmp_path)
    folder = made.home / "pipelines"
    folder.mkdir()
    (folder / "short.yaml").write_text(PIPELINE)
    (folder / "gated.yaml").write_text(PIPELINE + GATE)
    (folder / "bad.yaml").write_text("steps:\n  - {id: no, run: exit 7}\n")
    (folder / "slow.yaml").write_text(
        "steps:\n  - {id: slow, run: sleep 60, limits: {time: 0.2}}\n"
    )
    return made


def start(desk: Desk, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tillerman", "pipeline", *words],
        cwd=desk.project,
        env=desk.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def call(desk: Desk, *words: str, code: int = 0) -> str:
    process = start(desk, *words)
    out, errors = process.communicate(timeout=WITHIN)
    assert process.returncode == code, (out, errors)
    return out or errors


def wait_for_gate(desk: Desk) -> str:
    deadline = time.monotonic() + WITHIN
    while True:
        found = json.loads(call(desk, "list", "--json"))
        if found and found[0]["status"] == "waiting":
            return str(found[0]["id"])
        assert time.monotonic() < deadline


def test_run_shows_each_step_and_ends_with_a_commit(desk: Desk) -> None:
    out = call(desk, "run", "short", "-i", "word=moin")
    assert "✓  build  completed  mock" in out
    assert "said moin" in out
    assert out.splitlines()[-1].endswith(" completed")
    assert desk.git("show", "main:b.txt") == "moin"
    run = out.split()[1]
    shown = json.loads(call(desk, "show", run[:8], "--json"))
    assert [step["status"] for step in shown["steps"]] == ["completed", "completed"]
    assert shown["inputs"] == {"word": "moin"}
    assert "+moin" in call(desk, "show", "last", "check")
    assert call(desk, "logs", run, "check") == "said moin\n"
    assert "has no step 'chekc'" in call(desk, "logs", run, "chekc", code=2)
    call(desk, "delete", run)
    assert json.loads(call(desk, "list", "--json")) == []


def test_json_is_one_change_a_line(desk: Desk) -> None:
    lines = [json.loads(line) for line in call(desk, "run", "short", "--json").splitlines()]
    assert {line["type"] for line in lines} == {"run", "step", "log"}
    assert [line["status"] for line in lines if line["type"] == "run"][-1] == "completed"
    steps = [line for line in lines if line["type"] == "step"]
    assert [one["path"] for one in steps if one["status"] == "completed"] == ["build", "check"]


def test_exit_codes_of_runs(desk: Desk) -> None:
    assert "exit code 7" in call(desk, "run", "bad", code=1)
    assert "longer than 0.2 s" in call(desk, "run", "slow", code=5)
    assert "no input 'wrod'" in call(desk, "run", "short", "-i", "wrod=x", code=2)
    assert "there is no pipeline" in call(desk, "run", "nothing", code=2)
    assert "no run matches" in call(desk, "show", "nothing", code=2)


def test_a_gate_is_answered_from_another_terminal(desk: Desk) -> None:
    running = start(desk, "run", "gated")
    run = wait_for_gate(desk)
    assert "Good?" in call(desk, "show", run, "gate")
    call(desk, "approve", run)
    out, _ = running.communicate(timeout=WITHIN)
    assert running.returncode == 0, out
    assert f"tillerman pipeline approve {run} gate" in out
    assert desk.started() == ["after"]
    assert "answered before" in call(desk, "reject", run, "gate", code=2)


def test_a_rejected_run_is_exit_code_4(desk: Desk) -> None:
    running = start(desk, "run", "gated")
    call(desk, "reject", wait_for_gate(desk), "--note", "too long")
    out, _ = running.communicate(timeout=WITHIN)
    assert running.returncode == 4
    assert "rejected: too long" in out


def test_an_interrupted_run_goes_on_with_resume(desk: Desk) -> None:
    running = start(desk, "run", "gated")
    run = wait_for_gate(desk)
    running.send_signal(signal.SIGINT)
    _, errors = running.communicate(timeout=WITHIN)
    assert running.returncode == 130
    assert f"tillerman pipeline resume {run}" in errors
    assert "waiting, no process" in call(desk, "list")
    call(desk, "approve", run)
    out = call(desk, "resume", run)
    assert out.splitlines()[-1] == f"{run} completed"


def test_kill_pause_retry_and_fork(desk: Desk) -> None:
    running = start(desk, "run", "gated")
    run = wait_for_gate(desk)
    call(desk, "pause", run)
    out, _ = running.communicate(timeout=WITHIN)
    assert running.returncode == 4, out
    call(desk, "kill", run)
    call(desk, "resume", run, code=2)
    again = start(desk, "retry", run)
    second = wait_for_gate(desk)
    call(desk, "approve", second)
    out, _ = again.communicate(timeout=WITHIN)
    assert again.returncode == 0, out
    assert "kept from the earlier run" in out
    forking = start(desk, "fork", second, "--from", "check", "-i", "word=other")
    third = wait_for_gate(desk)
    call(desk, "approve", third)
    out, _ = forking.communicate(timeout=WITHIN)
    assert forking.returncode == 0, out
    assert desk.git("show", f"tillerman/{third}/RESULT:b.txt") == "other"


def test_files_that_steps_will_not_see_are_named(desk: Desk) -> None:
    running = start(desk, "run", "short")
    _, errors = running.communicate(timeout=WITHIN)
    assert "worktree" not in errors
    (desk.project / "README").write_text("changed\n")
    running = start(desk, "run", "short")
    _, errors = running.communicate(timeout=WITHIN)
    assert "each step works in a worktree: 1 uncommitted file" in errors


def test_a_branch_in_the_way_of_the_branches_of_steps_is_an_error_before_the_start(
    desk: Desk,
) -> None:
    desk.git("branch", "tillerman")
    assert "git branch -m tillerman NAME" in call(desk, "run", "short", code=2)
    desk.git("branch", "-m", "tillerman", "tillerman-old")
    call(desk, "run", "short")


def test_a_conflict_says_how_it_is_answered(desk: Desk) -> None:
    (desk.home / "pipelines" / "conflict.yaml").write_text(
        "steps:\n  - id: both\n    parallel:\n"
        "      - {id: a, run: echo a > same}\n      - {id: b, run: echo b > same}\n"
    )
    running = start(desk, "run", "conflict")
    run = wait_for_gate(desk)
    assert f"approve {run} both/MERGE --commit REVISION" in call(desk, "show", run)
    call(desk, "reject", run)
    assert running.wait(WITHIN) == 4
    running.communicate()
