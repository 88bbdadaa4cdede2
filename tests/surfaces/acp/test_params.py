"""Params of an editor's requests, as options of a session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tillerman.surfaces.acp.errors import InvalidParams
from tillerman.surfaces.acp.params import folder, opening_options


def test_mcp_servers_of_every_kind_are_options_of_the_session() -> None:
    pairs = [{"name": "KEY", "value": "x"}]
    servers = [
        {"name": "own", "command": "birds", "args": ["--all"], "env": pairs},
        {"type": "http", "name": "web", "url": "http://127.0.0.1/mcp", "headers": pairs},
        {"type": "sse", "name": "old", "url": "http://127.0.0.1/sse", "headers": []},
    ]
    assert opening_options({"mcpServers": servers})["servers"] == {
        "own": {"command": "birds", "args": ["--all"], "env": {"KEY": "x"}},
        "web": {"type": "http", "url": "http://127.0.0.1/mcp", "headers": {"KEY": "x"}},
        "old": {"type": "sse", "url": "http://127.0.0.1/sse"},
    }


def test_more_folders_and_a_system_prompt() -> None:
    content = [{"type": "text", "text": "Mind"}, {"type": "text", "text": "the heron."}]
    params = {
        "mcpServers": [],
        "additionalDirectories": ["/a"],
        "systemPrompt": {"mode": "append", "content": content},
    }
    assert opening_options(params) == {"folders": (Path("/a"),), "system": "Mind\n\nthe heron."}


@pytest.mark.parametrize(
    "server",
    [
        {},
        {"name": "x"},
        {"name": "x", "type": "acp", "serverId": "1"},
        {"name": "x", "type": "http"},
    ],
)
def test_a_server_that_cannot_be_started_is_refused(server: dict[str, Any]) -> None:
    with pytest.raises(InvalidParams):
        opening_options({"mcpServers": [server]})


@pytest.mark.parametrize("cwd", [None, "", "relative", "/a\0b", 5])
def test_a_folder_is_an_absolute_path(cwd: Any) -> None:
    with pytest.raises(InvalidParams):
        folder({"cwd": cwd})
