"""What the real Codex requests, whatever its files allow, and that its hook stays enforced."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.real.desk import Desk, of, run
from tests.real.stages import STAGES
from tillerman.core.events import (
    Notice,
    PermissionRequested,
    ToolFinished,
    ToolStarted,
    TurnEnded,
)
from tillerman.testing.gate_probe.probes import NOBODY, SERVER
from tillerman.testing.model_double.script import Say, reply

pytestmark = [pytest.mark.real, pytest.mark.agents("codex"), pytest.mark.timeout(120)]

stage = STAGES["codex"]
COMPLETED = TurnEnded(reason="completed")
HARMLESS = (
    "pwd", "ls", "echo hi", "true", "git status", "git log", "rg x", "find . -name x",
    "cat secret.txt", "head secret.txt", "wc -l secret.txt", "sed -n 1,3p secret.txt",
)  # fmt: skip
# By its approvals alone, Codex would run all of this unasked.
RULES = 'prefix_rule(pattern=["touch"], decision="allow")\n'
FEATURES = "[features]\nhooks = false\n"


@pytest.fixture
def marks(any_desk: Desk) -> Path:
    """The folder where a trusted server of the user writes its files, beside the user's own
    rules."""
    folder = any_desk.folder / "marks"
    folder.mkdir()
    home = any_desk.player.home / ".codex"
    (home / "rules").mkdir()
    (home / "rules" / "default.rules").write_text(RULES)
    server = f"""
[mcp_servers.own]
command = {json.dumps(sys.executable)}
args = [{json.dumps(str(SERVER))}, {json.dumps(str(folder))}]
default_tools_approval_mode = "approve"
"""
    config = home / "config.toml"
    config.write_text(config.read_text() + FEATURES + server)
    return folder


def play(desk: Desk) -> None:
    desk.double.scenarios["all"] = [
        reply(stage.shell("touch made", id="call_1")),
        reply(stage.mcp("own", "speak", {"text": "x"}, id="call_2")),
        reply(stage.mcp("own", "peek", {"text": "x"}, id="call_3")),
        reply(Say("So be it.")),
    ]


async def test_every_command_is_requested_including_harmless_ones(any_desk: Desk) -> None:
    desk = any_desk
    (desk.project / "secret.txt").write_text("heron-7321\n")
    calls = [stage.shell(command, id=f"call_{n}") for n, command in enumerate(HARMLESS)]
    desk.double.scenarios["all"] = [*(reply(call) for call in calls), reply(Say("So be it."))]
    session = await desk.start(approve="ask", tools=NOBODY)

    log = await run(session, "@@all@@ go")

    asked = [ask.call_id for ask in of(log, PermissionRequested)]
    assert asked == [f"call_{n}" for n in range(len(HARMLESS))]
    assert [call.input["command"] for call in of(log, ToolStarted)] == list(HARMLESS)
    assert {end.outcome for end in of(log, ToolFinished)} == {"denied"}


async def test_calls_the_users_files_allow_are_requested_all_the_same(
    any_desk: Desk, marks: Path
) -> None:
    desk = any_desk
    play(desk)
    session = await desk.start(approve="ask", tools=NOBODY)

    log = await run(session, "@@all@@ go")

    assert [ask.call_id for ask in of(log, PermissionRequested)] == ["call_1", "call_2", "call_3"]
    assert [end.outcome for end in of(log, ToolFinished)] == ["denied"] * 3
    assert (list(marks.iterdir()), (desk.project / "made").exists()) == ([], False)
    assert of(log, TurnEnded) == [COMPLETED]
    assert [notice for notice in of(log, Notice) if notice.level == "error"] == []


async def test_an_allowed_call_is_requested_once_and_runs(any_desk: Desk, marks: Path) -> None:
    desk = any_desk
    play(desk)
    session = await desk.start(approve="auto")

    log = await run(session, "@@all@@ go")

    assert [ask.call_id for ask in of(log, PermissionRequested)] == ["call_1", "call_2", "call_3"]
    assert [end.outcome for end in of(log, ToolFinished)] == ["completed"] * 3
    assert (desk.project / "made").exists()
    assert {mark.name for mark in marks.iterdir()} == {"speak", "peek"}
    assert of(log, TurnEnded) == [COMPLETED]


async def test_without_the_hook_the_users_files_decide_and_no_alarm_is_raised(
    any_desk: Desk, marks: Path
) -> None:
    desk = any_desk
    play(desk)
    session = await desk.start(
        approve="ask", tools=NOBODY, options={"hooks": False}, accept_advisory=True
    )

    log = await run(session, "@@all@@ go")

    assert (desk.project / "made").exists()
    assert of(log, TurnEnded) == [COMPLETED]
