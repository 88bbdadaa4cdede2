"""The real Copilot over JSON lines, its second transport, and its management commands."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.real.desk import Desk, agent_text, ends, of, processes_with, run, shown, until_true
from tests.real.stages import Actor
from tillerman.agents.commands.runner import CommandRunner
from tillerman.agents.copilot.agent import agent
from tillerman.core.agent_admin import Account, McpServer
from tillerman.core.events import (
    AgentReady,
    Diff,
    MessageChunk,
    ThoughtChunk,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    UserMessage,
)
from tillerman.testing.model_double.script import Fail, Say, Think, reply
from tillerman.testing.model_double.server import ModelDouble

pytestmark = [pytest.mark.real, pytest.mark.agents("copilot"), pytest.mark.timeout(150)]

COMPLETED = TurnEnded(reason="completed")
JSON = {"surface": "json"}
SERVER = {"command": sys.executable, "args": [str(Path(__file__).with_name("mcp_server.py"))]}


async def test_turns_in_processes_of_their_own_are_one_conversation(
    any_desk: Desk, actor: Actor
) -> None:
    stage, file = actor.stage, actor.project / "made.txt"
    any_desk.double.scenarios |= {
        "work": [
            reply(Think("Let me see."), stage.write(file, "one\n")),
            reply(stage.shell("cat made.txt; exit 3")),
            reply(stage.mcp("tiny", "shout", {"text": "hi"})),
            reply(Say("The word is kettle.")),
        ],
        "more": [reply(Say("It was kettle."))],
    }
    session = await any_desk.start(
        options=JSON,
        servers={"tiny": SERVER},
        system="You are a kettle. Whistle.",
        allowed_tools=("write", "shell", "tiny"),
        effort="high",
    )

    work = await run(session, "@@work@@ go")
    more = await run(session, "@@more@@ go")

    assert file.read_text() == "one\n"
    assert "".join(chunk.text for chunk in of(work, ThoughtChunk)) == "Let me see."
    assert [call.tool for call in of(work, ToolStarted)] == ["Write", "Bash", "MCP"]
    written, failed, shouted = of(work, ToolFinished)
    [diff] = written.content
    assert isinstance(diff, Diff)
    assert (diff.path, "+one\n" in (diff.patch or "")) == (str(file), True)
    assert (failed.outcome, shown(failed)) == ("failed", "one\n")
    assert (shouted.outcome, shown(shouted)) == ("completed", "HI")
    assert (agent_text(work), agent_text(more)) == ("The word is kettle.", "It was kettle.")
    first, last = any_desk.double.turns[0].body, any_desk.double.turns[-1].body
    assert "You are a kettle. Whistle." in str(first)
    assert first["reasoning_effort"] == "high"
    assert "The word is kettle." in str(last)
    assert len({one.native_id for one in of(any_desk.log(session), AgentReady)}) == 1
    assert ends(any_desk.log(session)) == [COMPLETED, COMPLETED]


async def test_calls_not_allowed_beforehand_are_denied_and_a_failure_has_its_kind(
    any_desk: Desk, actor: Actor
) -> None:
    any_desk.double.scenarios |= {
        "try": [reply(actor.stage.write(actor.project / "never.txt", "x\n")), reply(Say("No."))],
        "e404": [Fail(404, message="The model `nope` does not exist.")],
    }
    session = await any_desk.start(options=JSON)

    tried = await run(session, "@@try@@ go")
    [end] = ends(await run(session, "@@e404@@ go"))

    assert not (actor.project / "never.txt").exists()
    assert [one.outcome for one in of(tried, ToolFinished)] == ["denied"]
    assert end.failure is not None
    assert (end.failure.kind, end.failure.status) == ("model_not_found", 404)


async def test_an_interrupt_ends_the_process_and_all_that_it_started(
    any_desk: Desk, actor: Actor
) -> None:
    busy = "(while :; do sleep 0.21; done) & while :; do sleep 0.2; done"
    any_desk.double.scenarios["busy"] = [reply(Say("On it."), actor.stage.shell(busy))]
    session = await any_desk.start(options=JSON, allowed_tools=("shell",))
    home = f"HOME={actor.home}"

    await session.prompt("@@busy@@ go")
    await until_true(lambda: sum("sleep 0.2" in line for line in processes_with(home)) > 1, 60)
    await session.cancel()
    await session.idle()

    await until_true(lambda: not processes_with(home), within=5)
    log = any_desk.log(session)
    assert (agent_text(log), ends(log)) == ("On it.", [TurnEnded(reason="cancelled")])


# -- besides prompting -----------------------------------------------------------------------------


@pytest.fixture
async def agent_commands(
    actor: Actor, double: ModelDouble, tmp_path: Path
) -> AsyncIterator[CommandRunner]:
    actor.prepare(double.base_url)
    async with CommandRunner(
        actor.environment(double.base_url),
        agent="copilot",
        cwd=actor.home,
        records=tmp_path / "records",
        marker="copilot-real",
        binaries={"copilot": str(actor.program)},
    ) as running:
        yield running


async def test_version_account_and_models(
    agent_commands: CommandRunner, actor: Actor, double: ModelDouble
) -> None:
    assert (await agent.installed(agent_commands)).version == actor.version
    assert await agent.account(agent_commands) == Account(True, "variable", f"{double.base_url}/v1")
    models = {model.id: model.provider for model in await agent.models(agent_commands)}
    assert models["claude-sonnet-4.6"] == "anthropic"
    assert models["gpt-5.5"] == "openai"


async def test_its_sessions_and_their_history(
    agent_commands: CommandRunner, any_desk: Desk, actor: Actor
) -> None:
    any_desk.double.scenarios["list"] = [
        reply(actor.stage.shell("echo found", id="call_s")),
        reply(Say("One thing.")),
    ]
    session = await any_desk.start()
    await run(session, "@@list@@ what is there?")
    await session.close()

    [native] = await agent.native_sessions(agent_commands, any_desk.project)
    history = await agent.native_history(agent_commands, native)

    [ready] = of(any_desk.log(session), AgentReady)
    assert (native.native_id, native.cwd) == (ready.native_id, str(any_desk.project))
    assert history[0] == UserMessage(text="@@list@@ what is there?", how="imported")
    [end] = [one for one in history if isinstance(one, ToolFinished)]
    assert (end.outcome, shown(end)) == ("completed", "found\n")
    assert [one.text for one in history if isinstance(one, MessageChunk)] == ["One thing."]


async def test_servers_are_added_listed_switched_and_removed(
    agent_commands: CommandRunner, actor: Actor
) -> None:
    config: dict[str, Any] = {**SERVER, "env": {"KEY": "sk-secret"}}
    command = f"{SERVER['command']} {SERVER['args'][0]}"

    await agent.mcp_add(agent_commands, "tiny", config)
    added = await agent.mcp_servers(agent_commands)
    await agent.mcp_switch(agent_commands, "tiny", False)
    off = await agent.mcp_servers(agent_commands)
    await agent.mcp_remove(agent_commands, "tiny")

    assert added == [McpServer("tiny", "enabled", command)]
    assert off == [McpServer("tiny", "disabled", command)]
    assert await agent.mcp_servers(agent_commands) == []
    file = actor.home / ".copilot" / "mcp-config.json"
    assert json.loads(file.read_text()) == {"mcpServers": {}}
