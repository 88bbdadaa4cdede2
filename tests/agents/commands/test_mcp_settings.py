"""MCP servers in the settings of Gemini CLI and its forks, and in the lists they print."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tillerman.agents.commands.mcp_settings_file import added, edit, listed, removed
from tillerman.core.agent_admin import McpServer
from tillerman.core.errors import AgentError

# As Gemini CLI 0.61.0 prints it on stderr, and Qwen Code 0.24.4 on stdout without its colours.
LIST = """\
Configured MCP servers:

✗ probe: echo hi (stdio) - Disconnected
✓ tiny: python3 -c x: y - z (stdio) - Connected
✗ web: http://127.0.0.1:9/x (http) - Disconnected
○ off: npx thing (stdio) - Disabled
"""


def test_a_list_is_read_with_each_servers_command_and_state() -> None:
    assert listed(LIST) == [
        McpServer("probe", "disconnected", "echo hi"),
        McpServer("tiny", "connected", "python3 -c x: y - z"),
        McpServer("web", "disconnected", "http://127.0.0.1:9/x"),
        McpServer("off", "disabled", "npx thing"),
    ]


def test_no_servers_are_an_empty_list() -> None:
    assert listed("No MCP servers configured.\n") == []


@pytest.mark.parametrize(
    ("config", "kept"),
    [
        ({"command": "x", "args": ["a"], "env": {"K": "v"}}, None),
        ({"type": "http", "url": "http://h", "headers": {"A": "b"}}, {"httpUrl": "http://h"}),
        ({"type": "sse", "url": "http://h"}, {"url": "http://h"}),
        ({"url": "http://h"}, {"httpUrl": "http://h"}),
    ],
)
def test_a_server_is_added_beside_the_others(
    config: dict[str, object], kept: dict[str, object] | None
) -> None:
    before = {"model": "m", "mcpServers": {"old": {"command": "o"}}}
    headers = {"headers": config["headers"]} if "headers" in config else {}
    assert added(before, "new", config) == {
        "model": "m",
        "mcpServers": {"old": {"command": "o"}, "new": config if kept is None else kept | headers},
    }


def test_a_server_is_removed_and_an_unknown_one_is_named() -> None:
    settings = {"mcpServers": {"a": {}, "b": {}}, "x": 1}
    assert removed("gemini", settings, "a") == {"mcpServers": {"b": {}}, "x": 1}
    with pytest.raises(AgentError, match="no MCP server 'c'") as caught:
        removed("gemini", settings, "c")
    assert caught.value.hint == "it has: a, b"


def test_a_file_keeps_its_mode_its_order_and_foreign_entries(tmp_path: Path) -> None:
    file, link = tmp_path / "real.json", tmp_path / "settings.json"
    file.write_text('{"z": 1, "a": {"ü": [1.5, null]}}')
    file.chmod(0o640)
    link.symlink_to(file)

    edit("gemini", link, lambda settings: {**settings, "new": True})

    assert list(json.loads(file.read_text()).items()) == [
        ("z", 1),
        ("a", {"ü": [1.5, None]}),
        ("new", True),
    ]
    assert (file.stat().st_mode & 0o777, link.is_symlink()) == (0o640, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["real.json", "settings.json"]


def test_a_missing_file_is_created_for_the_user_alone(tmp_path: Path) -> None:
    file = tmp_path / ".gemini" / "settings.json"
    edit("gemini", file, lambda settings: {**settings, "new": True})
    assert (json.loads(file.read_text()), file.stat().st_mode & 0o777) == ({"new": True}, 0o600)


@pytest.mark.parametrize("content", ['{"a": 1, // why\n}', "[1]"])
def test_a_file_that_would_be_damaged_is_left_unchanged(tmp_path: Path, content: str) -> None:
    file = tmp_path / "settings.json"
    file.write_text(content)
    with pytest.raises(AgentError, match=r"settings\.json"):
        edit("gemini", file, lambda settings: settings)
    assert file.read_text() == content
