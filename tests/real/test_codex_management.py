"""Version, account, models and sessions of the real Codex."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.real.desk import Desk, run
from tests.real.stages import STAGES, Actor
from tillerman.agents import load
from tillerman.agents.codex.agent import CodexAgent, CodexExec
from tillerman.agents.commands.runner import CommandRunner
from tillerman.core.agent_admin import Account, McpServer, McpTool
from tillerman.core.events import MessageChunk, Text, ToolFinished, UserMessage
from tillerman.testing.model_double.script import Say, reply
from tillerman.testing.model_double.server import ModelDouble

pytestmark = [pytest.mark.real, pytest.mark.agents("codex"), pytest.mark.timeout(90)]

SERVER = str(Path(__file__).with_name("mcp_server.py"))


@pytest.fixture
async def agent_commands(
    actor: Actor, double: ModelDouble, tmp_path: Path
) -> AsyncIterator[CommandRunner]:
    actor.prepare(double.base_url)
    async with CommandRunner(
        actor.environment(double.base_url),
        agent="codex",
        cwd=actor.home,
        records=tmp_path / "records",
        marker="codex-real",
        binaries={"codex": str(actor.program)},
    ) as running:
        yield running


@pytest.fixture
def codex() -> CodexAgent:
    agent = load("codex")
    assert isinstance(agent, CodexAgent)
    return agent


async def test_version_models_and_account(
    codex: CodexAgent, agent_commands: CommandRunner, actor: Actor
) -> None:
    assert (await codex.installed(agent_commands)).version == actor.version
    models = await codex.models(agent_commands)
    assert [model.default for model in models].count(True) == 1
    assert "gpt-5.5" in {model.id for model in models}
    # its provider is not OpenAI, so that no account has to be signed in
    assert await codex.account(agent_commands) == Account(True, "variable")
    assert (await CodexExec().account(agent_commands)).signed_in is False
    assert (await codex.about(agent_commands))["model"] == "gpt-5.5"


async def test_its_sessions_and_their_history(
    codex: CodexAgent, agent_commands: CommandRunner, any_desk: Desk
) -> None:
    desk = any_desk
    desk.double.scenarios["list"] = [
        reply(STAGES["codex"].shell("echo found", id="call_s")),
        reply(Say("One thing.")),
    ]
    session = await desk.start()
    await run(session, "@@list@@ what is there?")
    await session.close()

    [native] = await codex.native_sessions(agent_commands, desk.project)
    history = await codex.native_history(agent_commands, native)

    assert (native.title, native.cwd) == ("@@list@@ what is there?", str(desk.project))
    assert await codex.native_sessions(agent_commands, desk.folder) == []
    assert UserMessage(text="@@list@@ what is there?", how="imported") in history
    shown = ToolFinished(call_id="call_s", outcome="completed", content=(Text("found\n"),))
    assert shown in history
    assert [one.text for one in history if isinstance(one, MessageChunk)] == ["One thing."]


async def test_servers_are_added_switched_off_and_removed(
    codex: CodexAgent, agent_commands: CommandRunner, actor: Actor
) -> None:
    config = actor.home / ".codex" / "config.toml"
    before = config.read_text()
    given = {"command": sys.executable, "args": [SERVER], "env": {"KEY": "secret"}}

    await codex.mcp_add(agent_commands, "tiny", given)
    command = f"{sys.executable} {SERVER}"
    assert await codex.mcp_servers(agent_commands) == [McpServer("tiny", "enabled", command)]
    tools = await codex.mcp_tools(agent_commands, "tiny")
    assert McpTool("shout", "Says it louder.", ("text",)) in tools
    await codex.mcp_switch(agent_commands, "tiny", False)
    assert await codex.mcp_servers(agent_commands) == [McpServer("tiny", "disabled", command)]
    await codex.mcp_remove(agent_commands, "tiny")

    assert await codex.mcp_servers(agent_commands) == []
    assert config.read_text().strip() == before.strip()
