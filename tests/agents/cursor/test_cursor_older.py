"""A version of Cursor that does not run our hooks: tools that need approval are withheld."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.agents.cursor.cursor_desk import Desk, perform
from tillerman.core.errors import GateNotEnforced, Unsupported
from tillerman.core.events import Notice, PermissionRequested, ToolFinished, TurnEnded
from tillerman.testing.scenario import agent_text, end, of, play

DONE = TurnEnded(reason="completed")

DEEDS = ({"shell": "touch ran"}, {"edit": "wrote", "content": "x"}, {"delete": "kept"})


@pytest.mark.parametrize(
    ("approve", "mode", "left"),
    [
        ("auto", "agent", ["ran", "wrote"]),
        ("edits", "agent", ["wrote"]),
        ("ask", "agent", ["kept"]),
        ("readonly", "agent", ["kept"]),
        ("none", "agent", ["kept"]),
        ("auto", "plan", ["kept"]),
        ("auto", "ask", ["kept"]),
    ],
)
async def test_nothing_runs_that_the_preset_would_not_allow(
    older_desk: Desk, approve: str, mode: Any, left: list[str]
) -> None:
    (older_desk.project / "kept").touch()
    session = await older_desk.start(approve=approve, mode=mode, accept_advisory=True)
    entries = await perform(session, *DEEDS)
    assert sorted(path.name for path in older_desk.project.iterdir() if path.name != ".git") == left
    assert end(entries) == DONE
    (notice,) = of(entries, Notice)
    assert (notice.level, notice.kind) == ("warning", "settings")


@pytest.mark.parametrize("approve", ["edits", "ask", "readonly", "none"])
async def test_its_own_permissions_deny_tools_a_server_might_still_offer(
    older_desk: Desk, approve: str
) -> None:
    session = await older_desk.start(approve=approve, accept_advisory=True)
    config = json.loads(agent_text(await play(session, "@@config@@")))
    assert "Shell(*)" in config["permissions"]["deny"]
    assert "Mcp(*:*)" in config["permissions"]["deny"]
    assert ("Write(**)" in config["permissions"]["deny"]) == (approve != "edits")
    assert config["approvalMode"] == "allowlist"


@pytest.mark.parametrize("path", [".git/hooks/pre-commit", ".env.local", "sub/.vscode/tasks.json"])
async def test_protected_files_are_not_written_even_if_all_is_allowed(
    older_desk: Desk, path: str
) -> None:
    session = await older_desk.start()
    entries = await perform(session, {"edit": path, "content": "x"})
    assert [one.outcome for one in of(entries, ToolFinished)] == ["denied"]
    assert not (older_desk.project / path).exists()


async def test_nothing_is_requested_and_no_plugin_is_given(older_desk: Desk) -> None:
    session = await older_desk.start(approve="edits", accept_advisory=True)
    entries = await play(session, "@@argv@@")
    assert "--plugin-dir" not in agent_text(entries)
    assert of(entries, PermissionRequested) == []


async def test_an_asking_preset_is_refused_unless_explicitly_accepted(
    older_desk: Desk,
) -> None:
    session = await older_desk.start(approve="ask")
    with pytest.raises(GateNotEnforced):
        await session.prompt("hello")
    assert session.last_seq == 0


async def test_an_unenforceable_tool_list_is_refused(older_desk: Desk) -> None:
    session = await older_desk.start(only_tools=("Read",))
    with pytest.raises(Unsupported):
        await session.prompt("hello")
