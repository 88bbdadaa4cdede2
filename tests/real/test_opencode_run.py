"""The real OpenCode over `opencode run`, its second transport, and its management commands."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.real.desk import Desk, agent_text, ends, of, processes_with, shown, until_true
from tests.real.stages import Actor
from tillerman.agents.commands.runner import CommandRunner
from tillerman.agents.opencode.agent import agent
from tillerman.core.agent_admin import Account, McpServer
from tillerman.core.events import (
    AgentReady,
    Diff,
    Entry,
    MessageChunk,
    Text,
    ThoughtChunk,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    UsageReported,
    UserMessage,
)
from tillerman.sessions.session import Session
from tillerman.testing.model_double.script import Fail, Say, Think, Usage, reply
from tillerman.testing.model_double.server import ModelDouble

pytestmark = [pytest.mark.real, pytest.mark.agents("opencode"), pytest.mark.timeout(240)]

MAX_WAIT = 100.0  # seconds: on a busy machine it takes half a minute to start
COMPLETED = TurnEnded(reason="completed")
RUN = {"surface": "run"}
SERVER = {"command": sys.executable, "args": [str(Path(__file__).with_name("mcp_server.py"))]}


async def run(session: Session, text: str) -> list[Entry]:
    async with asyncio.timeout(MAX_WAIT):
        return [entry async for entry in session.run(text)]


async def test_turns_in_processes_of_their_own_are_one_conversation(
    any_desk: Desk, actor: Actor
) -> None:
    stage, file = actor.stage, actor.project / "made.txt"
    used = Usage(input=100, output=20)
    any_desk.double.scenarios |= {
        "work": [
            reply(Think("Let me see."), stage.write(file, "one\n"), usage=used),
            reply(stage.shell("cat made.txt; exit 3"), usage=used),
            reply(stage.mcp("tiny", "shout", {"text": "hi"}), usage=used),
            reply(Say("The word is kettle."), usage=used),
        ],
        "more": [reply(Say("It was kettle."), usage=used)],
    }
    session = await any_desk.start(
        options=RUN, servers={"tiny": SERVER}, system="You are a kettle. Whistle."
    )

    work = await run(session, "@@work@@ go")
    more = await run(session, "@@more@@ go")

    assert file.read_text() == "one\n"
    assert [chunk.text for chunk in of(work, ThoughtChunk)] == ["Let me see."]
    assert [call.tool for call in of(work, ToolStarted)] == ["Write", "Bash", "MCP"]
    written, failed, shouted = of(work, ToolFinished)
    assert written.content == (Diff(str(file), new="one\n"),)
    assert (failed.outcome, shown(failed)) == ("failed", "one\n")
    assert (shouted.outcome, shown(shouted)) == ("completed", "HI")
    assert (agent_text(work), agent_text(more)) == ("The word is kettle.", "It was kettle.")
    assert [one.input_tokens for one in (*of(work, UsageReported), *of(more, UsageReported))] == [
        400,
        100,
    ]
    assert "You are a kettle. Whistle." in str(any_desk.double.turns[0].body)
    assert "The word is kettle." in str(any_desk.double.turns[-1].body)
    assert len({one.native_id for one in of(any_desk.log(session), AgentReady)}) == 1
    assert ends(any_desk.log(session)) == [COMPLETED, COMPLETED]


async def test_an_answer_only_session_writes_nothing_and_a_failure_has_its_kind(
    any_desk: Desk, actor: Actor
) -> None:
    any_desk.double.scenarios |= {
        "try": [reply(actor.stage.write(actor.project / "never.txt", "x\n")), reply(Say("No."))],
        "e401": [Fail(401, message="Incorrect API key provided.")],
    }
    session = await any_desk.start(options=RUN, mode="ask")

    await run(session, "@@try@@ go")
    [end] = ends(await run(session, "@@e401@@ go"))

    assert not (actor.project / "never.txt").exists()
    assert end.failure is not None
    assert (end.failure.kind, end.failure.status) == ("not_signed_in", 401)


async def test_an_interrupt_ends_the_process_and_the_next_turn_continues(
    any_desk: Desk, actor: Actor
) -> None:
    busy = "(while :; do sleep 0.21; done) & while :; do sleep 0.2; done"
    any_desk.double.scenarios |= {
        "busy": [reply(Say("On it."), actor.stage.shell(busy))],
        "next": [reply(Say("Still here."))],
    }
    session = await any_desk.start(options=RUN)
    home = f"HOME={actor.home}"

    def sleepers() -> list[str]:
        return [line for line in processes_with(home) if "sleep 0.2" in line]

    await session.prompt("@@busy@@ go")
    await until_true(lambda: len(sleepers()) > 1, within=MAX_WAIT)
    await session.cancel()
    await session.idle()
    await until_true(lambda: not processes_with(home), within=5)
    await run(session, "@@next@@ go")

    log = any_desk.log(session)
    assert ends(log) == [TurnEnded(reason="cancelled"), COMPLETED]
    assert agent_text(log, 2) == "Still here."


# -- besides prompting -----------------------------------------------------------------------------


@pytest.fixture
async def agent_commands(
    actor: Actor, double: ModelDouble, tmp_path: Path
) -> AsyncIterator[CommandRunner]:
    actor.prepare(double.base_url)
    async with CommandRunner(
        actor.environment(double.base_url),
        agent="opencode",
        cwd=actor.home,
        records=tmp_path / "records",
        marker="opencode-real",
        binaries={"opencode": str(actor.program)},
    ) as running:
        yield running


async def test_version_account_and_models(agent_commands: CommandRunner, actor: Actor) -> None:
    assert (await agent.installed(agent_commands)).version == actor.version
    assert await agent.account(agent_commands) == Account(True, "config", "scripted")
    models = {model.id: model for model in await agent.models(agent_commands)}
    scripted = models["scripted/scripted"]
    assert (scripted.title, scripted.provider, scripted.thinking) == ("scripted", "scripted", True)
    assert scripted.context == 200_000


async def test_its_sessions_and_their_history(
    agent_commands: CommandRunner, any_desk: Desk, actor: Actor
) -> None:
    any_desk.double.scenarios["list"] = [
        reply(actor.stage.shell("echo found", id="call_s")),
        reply(Say("One thing.")),
    ]
    session = await any_desk.start(options=RUN)
    await run(session, "@@list@@ what is there?")
    await session.close()

    [native] = await agent.native_sessions(agent_commands, any_desk.project)
    history = await agent.native_history(agent_commands, native)

    [ready] = of(any_desk.log(session), AgentReady)
    assert (native.native_id, native.cwd) == (ready.native_id, str(any_desk.project))
    assert history[0] == UserMessage(text="@@list@@ what is there?", how="imported")
    found = ToolFinished(call_id="call_s", outcome="completed", content=(Text("found\n"),))
    assert found in history
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

    assert added == [McpServer("tiny", "connected", command)]
    assert off == [McpServer("tiny", "disabled", command)]
    assert await agent.mcp_servers(agent_commands) == []
    file = actor.home / ".config" / "opencode" / "opencode.json"
    left = set(json.loads(file.read_text())) - {"$schema"}  # that it writes there by itself
    assert left == {"provider", "model", "small_model", "mcp"}
