"""No setting of the user or the project weakens the gate of real OpenCode and Copilot.

`test_gate_real.py` checks each class of every agent; this checks what is specific here.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from tests.real.desk import Desk, ends, of
from tests.real.stages import Actor
from tillerman.core.events import (
    Entry,
    PermissionRequested,
    RequestAnswered,
    ToolFinished,
    TurnEnded,
)
from tillerman.sessions.session import Session
from tillerman.testing.model_double.script import ModelToolCall, Say, reply

pytestmark = [pytest.mark.real, pytest.mark.timeout(240)]

MAX_WAIT = 150.0  # seconds: on a busy machine each prompt of OpenCode takes some
COMPLETED = TurnEnded(reason="completed")
SERVER = {"command": sys.executable, "args": [str(Path(__file__).with_name("mcp_server.py"))]}
NOBODY = ("SaveMemory",)  # the only tool that is allowed, and it is never called

LOOSE = {
    "*": "allow",
    "bash": {"*": "allow", "touch *": "allow"},
    "edit": "allow",
    "read": {"*": "allow"},
    "tiny_*": "allow",
    "tiny_shout": "allow",
    "external_directory": "allow",
}
BY_PROJECT = {
    "permission": LOOSE,
    "tools": {"bash": True},
    "default_agent": "loose",
    "agent": {
        "build": {"disable": True, "permission": LOOSE},
        "loose": {"mode": "primary", "permission": LOOSE},
    },
}
AGENT = """---
mode: subagent
hidden: true
permission:
  "*": allow
  bash: allow
  tiny_shout: allow
---
You are loose.
"""


async def run(session: Session, text: str) -> list[Entry]:
    async with asyncio.timeout(MAX_WAIT):
        return [entry async for entry in session.run(text)]


async def _all_is_asked(desk: Desk, actor: Actor, **settings: object) -> None:
    """A command, a file, a read and a server's tool, in a session that denies everything."""
    (actor.project / "secret.txt").write_text("heron\n")
    stage = actor.stage
    desk.double.scenarios["all"] = [
        reply(stage.shell("touch by-shell")),
        reply(stage.write(actor.project / "made.txt", "x\n")),
        reply(stage.read(actor.project / "secret.txt")),
        reply(stage.mcp("tiny", "shout", {"text": "hi"})),
        reply(Say("So be it.")),
    ]
    session = await desk.start(approve="ask", tools=NOBODY, servers={"tiny": SERVER}, **settings)

    log = await run(session, "@@all@@ go")

    asked = [(one.tool, one.title) for one in of(log, PermissionRequested)]
    assert asked == [
        ("Bash", "Bash `touch by-shell`"),
        ("Write", "Write `made.txt`"),
        ("Read", "Read `secret.txt`"),
        ("MCP", "MCP `tiny.shout`"),
    ]
    assert [one.outcome for one in of(log, ToolFinished)] == ["denied"] * 4
    assert not (actor.project / "by-shell").exists()
    assert not (actor.project / "made.txt").exists()
    assert "heron" not in str([turn.body for turn in desk.double.turns])
    assert ends(log) == [COMPLETED]


@pytest.mark.agents("opencode")
async def test_no_config_of_opencode_loosens_what_it_asks(any_desk: Desk, actor: Actor) -> None:
    own = actor.home / ".config/opencode/opencode.json"
    own.write_text(json.dumps({**json.loads(own.read_text()), **BY_PROJECT}))
    (actor.project / "opencode.json").write_text(json.dumps(BY_PROJECT))
    agents = actor.project / ".opencode/agent"
    agents.mkdir(parents=True)
    (agents / "build.md").write_text(AGENT)

    loose = {"OPENCODE_PERMISSION": json.dumps(LOOSE)}
    await _all_is_asked(any_desk, actor, environment=loose)


@pytest.mark.agents("opencode")
async def test_a_patch_of_several_files_is_requested_with_their_paths(
    any_desk: Desk, actor: Actor
) -> None:
    """Some models have patches as their only way to write."""
    own = actor.home / ".config/opencode/opencode.json"
    config = json.loads(own.read_text())
    models = config["provider"]["scripted"]["models"]
    models["gpt-5-scripted"] = {**models["scripted"], "name": "gpt-5-scripted"}
    own.write_text(json.dumps(config))
    (actor.project / "b.txt").write_text("two\n")
    patch = (
        "*** Begin Patch\n*** Add File: a.txt\n+one\n"
        "*** Update File: b.txt\n@@\n-two\n+three\n*** End Patch"
    )
    any_desk.double.scenarios["patch"] = [
        reply(ModelToolCall("apply_patch", {"patchText": patch})),
        reply(Say("So be it.")),
    ]
    session = await any_desk.start(
        approve="ask", tools=NOBODY, model="scripted/gpt-5-scripted", options={}
    )

    log = await run(session, "@@patch@@ go")

    [asked] = of(log, PermissionRequested)
    places = {Path(actor.project, path) for path in asked.paths}
    assert places == {actor.project / "a.txt", actor.project / "b.txt"}
    assert not (actor.project / "a.txt").exists()


@pytest.mark.agents("copilot")
async def test_neither_approvals_nor_a_variable_loosen_what_copilot_asks(
    any_desk: Desk, actor: Actor
) -> None:
    approvals = [
        {"kind": "commands", "commandIdentifiers": ["touch by-shell", "touch"]},
        {"kind": "write"},
        {"kind": "read"},
        {"kind": "mcp", "serverName": "tiny", "toolName": None},
    ]
    folder = actor.home / ".copilot"
    folder.mkdir(parents=True, exist_ok=True)
    known = {"locations": {str(actor.project): {"tool_approvals": approvals}}}
    (folder / "permissions-config.json").write_text(json.dumps(known))
    (folder / "settings.json").write_text(json.dumps({"disableAllHooks": True}))

    await _all_is_asked(any_desk, actor, environment={"COPILOT_ALLOW_ALL": "true"})


@pytest.mark.agents("copilot")
async def test_the_calls_of_a_subagent_are_requested_within_its_task(
    any_desk: Desk, actor: Actor
) -> None:
    task = {
        "description": "look",
        "name": "scout",
        "prompt": "@@sub@@ go",
        "agent_type": "general-purpose",
        "mode": "sync",
    }
    any_desk.double.scenarios |= {
        "main": [reply(ModelToolCall("task", task, "t1")), reply(Say("It looked."))],
        "sub": [reply(actor.stage.shell("touch by-scout")), reply(Say("Looked."))],
    }
    session = await any_desk.start(approve="auto")

    log = await run(session, "@@main@@ go")

    asked = [(one.tool, one.call_id, one.parent) for one in of(log, PermissionRequested)]
    assert [tool for tool, _, _ in asked] == ["Task", "Bash"]
    assert asked[1][2] == "t1"
    assert {one.by for one in of(log, RequestAnswered)} == {"policy"}
    assert (actor.project / "by-scout").exists()
