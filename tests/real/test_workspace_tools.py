"""The workspace tools with real agents: each CLI calls every one of them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.mcp import mcp_desk
from tests.real.desk import Desk, agent_text, ends, of, run, shown
from tests.real.stages import Actor
from tillerman.core.events import Entry, PermissionRequested, ToolFinished, ToolStarted, TurnEnded
from tillerman.sessions.run_settings import WorkspaceToolSettings
from tillerman.sessions.session import Session
from tillerman.testing.model_double.script import ModelRequest, Say, Step, reply
from tillerman.workspace.tools.tool_schemas import CALLS

pytestmark = [
    pytest.mark.real,
    pytest.mark.agents("claude", "codex", "gemini", "qwen", "opencode", "copilot"),
    pytest.mark.newest,
    pytest.mark.timeout(180),
]

BENCH = WorkspaceToolSettings(environment={"PATH": "/usr/local/bin:/usr/bin:/bin"})
NOT_YET = "There are no tools yet."
# As for any client, but news of the process are waited for, and one command is seen to its end.
ERRANDS = [
    ("execute_shell", {"command": "echo out; echo err >&2; exit 3"}, "exit code 3"),
    *(
        (tool, arguments | {"wait_ms": 3000}, "ready")
        if tool == "poll_process"
        else (tool, arguments, expected)
        for tool, arguments, expected in mcp_desk.ERRANDS
    ),
]


def trust(actor: Actor) -> dict[str, Any]:
    """Gemini loads no servers in a folder that it does not trust."""
    return {"trust": True} if actor.agent == "gemini" else {}


def script(actor: Actor, agent_commands: list[tuple[str, dict[str, Any], str]]) -> Any:
    replies: dict[int, Step] = {}
    left = iter(agent_commands)

    def next_reply(request: ModelRequest) -> Step:
        if actor.agent == "codex" and "execute_shell" not in str(request.body.get("tools")):
            return reply(Say(NOT_YET))  # it begins a turn while servers are still starting
        errand = next(left, None)
        if errand is None:
            return reply(Say("All done."))
        tool, arguments, _ = errand
        named = mcp_desk.PROCESS.findall(str(request.body))
        given = {
            key: named[-1] if value == "*" and named else value for key, value in arguments.items()
        }
        return reply(actor.stage.mcp("tillerman", tool, given))

    def step(request: ModelRequest) -> Step:
        if request.step not in replies:
            replies[request.step] = next_reply(request)
        return replies[request.step]

    return step


async def play(session: Session) -> list[Entry]:
    """Runs the turn in which it has the tools."""
    log = await run(session, "@@errands@@ go")
    while agent_text(log) == NOT_YET:
        await asyncio.sleep(0.5)
        log = await run(session, "go on")
    return log


async def test_every_tool_works_from_it(any_desk: Desk, actor: Actor) -> None:
    assert {tool for tool, _, _ in ERRANDS} == set(CALLS)
    any_desk.double.scenarios["errands"] = script(actor, ERRANDS)
    session = await any_desk.start(bench=BENCH, options=trust(actor))
    log = await play(session)
    assert (ends(log), agent_text(log)) == ([TurnEnded(reason="completed")], "All done.")
    ours = [call for call in of(log, ToolStarted) if call.call_id.startswith("tillerman-")]
    assert [call.name for call in ours] == [f"tillerman.{tool}" for tool, _, _ in ERRANDS]
    results = {end.call_id: shown(end) for end in of(log, ToolFinished)}
    for call, (tool, _, expected) in zip(ours, ERRANDS, strict=True):
        assert expected in results[call.call_id], tool
    theirs = [call for call in of(log, ToolStarted) if call not in ours]
    assert [call.tool for call in theirs] == ["MCP"] * len(ERRANDS)
    assert {call.parent for call in ours} <= {call.call_id for call in theirs} | {None}
    assert (any_desk.project / "notes/a.txt").read_text() == "one\nzwei\n"


async def test_calls_the_policy_denies_do_not_run(any_desk: Desk, actor: Actor) -> None:
    agent_commands = [
        ("execute_shell", {"command": "touch made"}, ""),
        ("write_file", {"path": "made", "content": "x"}, ""),
        ("read_file", {"path": "/etc/passwd"}, ""),
    ]
    any_desk.double.scenarios["errands"] = script(actor, agent_commands)
    session = await any_desk.start(bench=BENCH, approve="readonly", options=trust(actor))
    log = await play(session)
    assert not (any_desk.project / "made").exists()
    assert ends(log) == [TurnEnded(reason="completed")]
    assert {end.outcome for end in of(log, ToolFinished)} <= {"denied", "failed"}
    assert of(log, PermissionRequested)
