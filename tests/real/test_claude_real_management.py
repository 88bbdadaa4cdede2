"""Version, account, models and servers of the real Claude Code."""

from __future__ import annotations

import secrets
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.real.claude_desk import KEY, ClaudeDesk, of, run
from tests.real.real_claude import RealClaude
from tillerman.agents import load
from tillerman.agents.commands.runner import CommandRunner
from tillerman.core.agent_admin import (
    Account,
    AccountInfo,
    Installed,
    InstallInfo,
    McpServer,
    McpServerChanges,
    McpServerList,
    McpTool,
    McpToolList,
    ModelList,
    NativeSessionHistory,
    NativeSessionList,
)
from tillerman.core.errors import AgentError
from tillerman.core.events import AgentReady, MessageChunk, ToolFinished, ToolStarted, UserMessage
from tillerman.testing.model_double.script import ModelToolCall, Say, Think, reply
from tillerman.testing.model_double.server import ModelDouble

pytestmark = [pytest.mark.real, pytest.mark.timeout(60)]

SERVER = Path(__file__).with_name("mcp_server.py")


def agent_commands(
    claude: RealClaude, double: ModelDouble, folder: Path, **more: str
) -> CommandRunner:
    return CommandRunner(
        claude.environment(double.base_url, **more),
        cwd=claude.project,
        records=folder / "records",
        marker=f"errands-{secrets.token_hex(6)}",
        binaries={"claude": str(claude.program)},
    )


@pytest.fixture
async def errand(
    claude: RealClaude, double: ModelDouble, tmp_path: Path
) -> AsyncIterator[CommandRunner]:
    async with agent_commands(claude, double, tmp_path, ANTHROPIC_API_KEY=KEY) as running:
        yield running


async def test_it_reports_its_path_and_its_version(
    claude: RealClaude, errand: CommandRunner
) -> None:
    agent = load("claude")
    assert isinstance(agent, InstallInfo)

    installed = await agent.installed(errand)

    assert installed == Installed("claude", str(claude.program), claude.version, agent.info.install)


async def test_it_reports_who_is_signed_in(
    claude: RealClaude, double: ModelDouble, errand: CommandRunner, tmp_path: Path
) -> None:
    agent = load("claude")
    assert isinstance(agent, AccountInfo)

    with_key = await agent.account(errand)
    async with agent_commands(claude, double, tmp_path, ANTHROPIC_API_KEY="") as keyless:
        without = await agent.account(keyless)

    assert with_key == Account(signed_in=True, method="variable", who="ANTHROPIC_API_KEY")
    assert (without.signed_in, "claude auth login" in without.hint) == (False, True)


async def test_it_lists_its_models_without_a_model_call(
    double: ModelDouble, errand: CommandRunner
) -> None:
    agent = load("claude")
    assert isinstance(agent, ModelList)

    models = await agent.models(errand)

    assert len(models) >= 3
    assert [model.default for model in models].count(True) == 1
    assert all(model.id and model.title for model in models)
    assert any("high" in model.efforts for model in models)
    assert double.turns == []


async def test_it_lists_the_stored_sessions_of_a_folder(
    desk: ClaudeDesk, errand: CommandRunner
) -> None:
    agent = load("claude")
    assert isinstance(agent, NativeSessionList)
    desk.double.scenarios["keep"] = [reply(Say("Kept."))]
    session = await desk.start()
    log = await run(session, "@@keep@@ this one")
    await session.close()  # it writes its sessions a little later than it speaks

    [stored] = await agent.native_sessions(errand, desk.project)

    assert stored.native_id == of(log, AgentReady)[0].native_id
    assert stored.cwd == str(desk.project)
    assert stored.title
    assert stored.updated.startswith("20")


async def test_it_reads_the_history_of_a_stored_session(
    desk: ClaudeDesk, errand: CommandRunner
) -> None:
    agent = load("claude")
    assert isinstance(agent, NativeSessionList)
    assert isinstance(agent, NativeSessionHistory)
    written = {"file_path": str(desk.project / "new.txt"), "content": "x\n"}
    desk.double.scenarios["keep"] = [
        reply(Think("Hm."), Say("First."), ModelToolCall("Write", written, id="toolu_w")),
        reply(
            ModelToolCall("Bash", {"command": "ls; exit 3", "description": "fail"}, id="toolu_b")
        ),
        reply(Say("Kept.")),
    ]
    session = await desk.start()
    log = await run(session, "@@keep@@ this one")
    await session.close()

    [stored] = await agent.native_sessions(errand, desk.project)
    history = await agent.native_history(errand, stored)

    assert history[0] == UserMessage(text="@@keep@@ this one", how="imported")
    assert [e.text for e in history if isinstance(e, MessageChunk)] == ["First.", "Kept."]
    tools = [event for event in history if isinstance(event, ToolStarted | ToolFinished)]
    assert tools == [
        entry.event for entry in log if isinstance(entry.event, ToolStarted | ToolFinished)
    ]


async def test_it_adds_lists_and_removes_mcp_servers(errand: CommandRunner) -> None:
    agent = load("claude")
    assert isinstance(agent, McpServerList)
    assert isinstance(agent, McpServerChanges)
    assert isinstance(agent, McpToolList)
    assert await agent.mcp_servers(errand) == []

    await agent.mcp_add(errand, "tiny", {"command": sys.executable, "args": [str(SERVER)]})
    listed = await agent.mcp_servers(errand)
    tools = await agent.mcp_tools(errand, "tiny")
    await agent.mcp_remove(errand, "tiny")

    assert listed == [McpServer("tiny", "connected", f"{sys.executable} {SERVER}")]
    assert tools == [McpTool("shout"), McpTool("flood")]
    assert await agent.mcp_servers(errand) == []
    with pytest.raises(AgentError):
        await agent.mcp_remove(errand, "tiny")
    with pytest.raises(AgentError, match="tiny"):
        await agent.mcp_tools(errand, "tiny")
