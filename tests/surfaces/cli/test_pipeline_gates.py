"""Gates in the terminal that runs the run: answered there, or from another terminal."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pipelines.run_desk import APPROVE, Desk
from tests.surfaces.conftest import Terminal

PIPELINE = """
steps:
  - {id: build, run: "sleep 1; echo text > built.txt; echo is built"}
  - {id: gate, review: "Good?"}
  - {id: after, run: note after}
"""
ASKED = "answer here"


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    made = Desk(tmp_path)
    (made.home / "pipelines").mkdir()
    (made.home / "pipelines" / "gated.yaml").write_text(PIPELINE)
    return made


@pytest.fixture
def terminal(desk: Desk) -> Iterator[Terminal]:
    command = [sys.executable, "-m", "tillerman", "pipeline", "run", "gated"]
    made = Terminal(command, desk.project, {**desk.environment, "TERM": "xterm"})
    yield made
    made.close()


def test_a_gate_is_shown_and_approved_in_place(desk: Desk, terminal: Terminal) -> None:
    terminal.wait_for(ASKED)
    assert "Good?" in terminal.text
    terminal.press("what\n")
    at = terminal.wait_for(ASKED, terminal.wait_for("what"))
    terminal.press("d\n")
    at = terminal.wait_for("+text", at)
    terminal.wait_for(ASKED, at)
    assert desk.started() == []
    terminal.press("a\n")
    assert terminal.end() == 0
    assert desk.started() == ["after"]


def test_a_gate_is_rejected_in_place_with_a_reason(desk: Desk, terminal: Terminal) -> None:
    terminal.wait_for(ASKED)
    terminal.press("r too small\n")
    assert terminal.end() == 4
    assert "rejected: too small" in terminal.text
    assert desk.started() == []


async def test_what_was_typed_before_a_gate_opened_is_no_answer(
    desk: Desk, terminal: Terminal
) -> None:
    terminal.wait_for("build")
    terminal.press("a\n")
    terminal.wait_for(ASKED)
    async with desk.control() as control:
        run = control.look("last")
        assert (run.status, desk.started()) == ("waiting", [])
        assert await control.answer(run.id, "gate", APPROVE)
    assert terminal.end() == 0
    assert desk.started() == ["after"]


def test_a_database_that_cannot_be_used_is_one_error(desk: Desk) -> None:
    found = subprocess.run(
        [sys.executable, "-m", "tillerman", "pipeline", "list"],
        cwd=desk.project,
        env={**desk.environment, "TILLERMAN_DATABASE_URL": "postgresql://u:secret@127.0.0.1:9/x"},
        capture_output=True,
        text=True,
    )
    assert found.returncode == 1
    assert "error: the database of the runs cannot be used" in found.stderr
    assert "TILLERMAN_DATABASE_URL" in found.stderr
    assert "secret" not in found.stderr
    assert "bug" not in found.stderr
