"""A project with the settings of every agent: mounted read-only, and each agent works in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.real.desk import Desk
from tests.real.stages import Actor
from tillerman.core.events import AgentStarted, Notice, TurnEnded
from tillerman.testing.model_double.script import Say, reply

pytestmark = [
    pytest.mark.real,
    pytest.mark.newest,
    pytest.mark.timeout(180),
    pytest.mark.agents("claude", "codex", "gemini", "qwen", "opencode", "copilot"),
]

SETTINGS = {
    ".agents/skills/one/SKILL.md": "---\nname: one\ndescription: one\n---\nSay one.\n",
    ".claude/settings.json": "{}\n",
    ".codex/config.toml": "",
    ".copilot/notes.md": "none\n",
    ".cursor/hooks.json": '{"version": 1, "hooks": {}}\n',
    ".gemini/settings.json": "{}\n",
    ".opencode/agent/build.md": "---\ndescription: builds\n---\nBuild.\n",
    ".qwen/settings.json": "{}\n",
    ".mcp.json": '{"mcpServers": {}}\n',
    "opencode.json": "{}\n",
}


def files_in(project: Path) -> dict[str, str]:
    return {name: (project / name).read_text() for name in SETTINGS}


async def test_it_works_in_a_folder_with_the_settings_of_all_agents(
    any_desk: Desk, actor: Actor
) -> None:
    for name, content in SETTINGS.items():
        (any_desk.project / name).parent.mkdir(parents=True, exist_ok=True)
        (any_desk.project / name).write_text(content)
    made = any_desk.project / "made.txt"
    any_desk.double.scenarios["work"] = [
        reply(actor.stage.shell("echo made > made.txt")),
        reply(Say("done")),
    ]
    session = await any_desk.start(
        approve="auto", accept_advisory=True, options=actor.stage.options
    )
    entries = [entry.event async for entry in session.run("@@work@@ go")]
    [started] = [event for event in entries if isinstance(event, AgentStarted)]
    assert entries[-1] == TurnEnded(reason="completed"), entries
    assert made.read_text() == "made\n"
    assert files_in(any_desk.project) == SETTINGS
    warnings = [event for event in entries if isinstance(event, Notice) and event.kind == "files"]
    assert warnings == [], started.enforcement
