"""The MCP servers of the agent: listed, shown in detail, enabled and disabled."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.surfaces.tui.desk import Desk, desk
from tests.surfaces.tui.machine import Machine
from tillerman.surfaces.tui.dialogs.mcp_panel import McpPanel


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


async def _open(who: Desk, agent: str) -> McpPanel:
    assert who.pane.channel
    who.pane.channel.requested["agent"] = agent
    await who.press("f4")
    await who.until(lambda: isinstance(who.app.screen, McpPanel))
    assert isinstance(who.app.screen, McpPanel)
    return who.app.screen


def _statuses(panel: McpPanel) -> dict[str, str]:
    return {row.key: row.state for row in panel.servers.rows}


async def test_servers_are_listed_with_their_tools_and_switched(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.has_cursor()
    offered = {"search": ["query", "limit"], "fetch": ["url"]}
    servers = {"docs": {"command": "npx", "args": ["docs-server"], "tools": offered}}
    (machine.home / ".cursor").mkdir(exist_ok=True)
    (machine.home / ".cursor" / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    async with desk(machine.home, machine.project, monkeypatch) as who:
        panel = await _open(who, "cursor")
        await who.until(lambda: "docs" in _statuses(panel))
        await who.press("e")
        await who.sees("cursor uses docs after its next start")
        assert _statuses(panel)["docs"].startswith("ready")
        await who.press("enter")
        await who.sees("Tools of docs: 2")
        assert [row.key for row in panel.tools.rows] == ["search", "fetch"]
        await who.sees("query limit")
        await who.press("d")
        await who.sees("cursor does not use docs after its next start")
        assert _statuses(panel)["docs"].startswith("disabled")
        await who.press("escape")
        await who.until(lambda: not isinstance(who.app.screen, McpPanel))


async def test_an_agent_that_lists_no_servers_shows_its_capabilities(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(machine.home, machine.project, monkeypatch) as who:
        await _open(who, "mock")
        await who.sees("mock does not support listing MCP servers")
        await who.sees("`tillerman agents mock` lists what it supports")
        await who.press("e", "d", "enter")  # there is nothing that could be switched
        await who.press("escape")


async def test_a_missing_agent_shows_how_to_install_it(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(machine.home, machine.project, monkeypatch) as who:
        await _open(who, "claude")
        await who.sees("npm install -g @anthropic-ai/claude-code")
        await who.press("escape")
