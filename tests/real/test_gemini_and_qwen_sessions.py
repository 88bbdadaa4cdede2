"""Sessions with the real Gemini CLI and Qwen Code: resumed, failing, and without leftovers."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from tests.real.bare import run_bare
from tests.real.desk import KEY, Desk, agent_text, ends, of, run, until_true
from tests.real.home_tree import home_tree
from tests.real.stages import Actor
from tillerman.agents import load
from tillerman.agents.commands.runner import CommandRunner
from tillerman.core.agent_admin import Account, McpServer, NativeSession
from tillerman.core.errors import Unsupported
from tillerman.core.events import (
    AgentReady,
    MessageChunk,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    UserMessage,
)
from tillerman.core.failure import Failure
from tillerman.testing.model_double.script import Say, reply
from tillerman.testing.model_double.server import ModelDouble

pytestmark = [pytest.mark.real, pytest.mark.agents("gemini", "qwen"), pytest.mark.timeout(200)]

# Random, or the time of its last chore.
RESTLESS = (".gemini/installation_id", ".qwen/installation_id", ".qwen/.openai-logs-cleanup-*")
COMPLETED = TurnEnded(reason="completed")


async def test_a_session_continues_in_a_new_process(any_desk: Desk, actor: Actor) -> None:
    any_desk.double.scenarios["two"] = [reply(Say("The word is kettle.")), reply(Say("Kettle."))]
    first = await any_desk.start()
    [ready] = of(await run(first, "@@two@@ remember"), AgentReady)
    if actor.agent == "gemini":
        _age(actor.home, ready.native_id)
    if actor.version == "0.15.10":
        await _written(actor.home, ready.native_id, "The word is kettle.")
    await any_desk.reopen()

    second = await any_desk.resume(first.id)
    log = await run(second, "@@two:1@@ which word?")

    assert agent_text(log, turn=2) == "Kettle."
    assert "The word is kettle." in str(any_desk.double.turns[-1].body)
    natives = {ready.native_id for ready in of(any_desk.log(second), AgentReady)}
    assert natives == {ready.native_id}


def _age(home: Path, native_id: str) -> None:
    """Changes the session's minute, so that the test need not wait for the next."""
    [file] = home.glob(f".gemini/tmp/*/chats/session-*-{native_id[:8]}.jsonl")
    file.rename(file.with_name(f"session-2026-01-01T00-00-{native_id[:8]}.jsonl"))


async def _written(home: Path, native_id: str, words: str) -> None:
    """Waits for the history: this version exits without waiting for it to be written."""
    file = next(home.glob(f".qwen/projects/*/chats/{native_id}.jsonl"))
    await until_true(lambda: words in file.read_text())


@pytest.mark.agents("gemini")
async def test_within_its_minute_a_session_is_not_lost(any_desk: Desk, actor: Actor) -> None:
    """Loading it then would destroy it: opening waits for the next minute."""
    any_desk.double.scenarios["two"] = [reply(Say("The word is kettle.")), reply(Say("Kettle."))]
    first = await any_desk.start()
    await run(first, "@@two@@ remember")
    made = int(time.time() // 60)
    await any_desk.reopen()

    second = await any_desk.resume(first.id)
    async with asyncio.timeout(100):
        log = [entry async for entry in second.run("@@two:1@@ which word?")]

    assert agent_text(log, turn=2) == "Kettle."
    assert "The word is kettle." in str(any_desk.double.turns[-1].body)
    assert int(time.time() // 60) > made


async def test_a_missing_session_fails_by_name(any_desk: Desk, actor: Actor) -> None:
    any_desk.double.scenarios["hello"] = [reply(Say("Hello."))]
    session = await any_desk.start(resume="00000000-0000-4000-8000-000000000000")

    log = await run(session, "@@hello@@ go")

    [end] = ends(log)
    if actor.version == "0.15.10":  # it opens an empty one instead
        assert end == COMPLETED
    else:
        assert end.failure
        assert "start a new session" in end.failure.hint


async def test_without_a_key_no_account_is_signed_in(any_desk: Desk, actor: Actor) -> None:
    session = await any_desk.start(environment={actor.stage.key: ""})

    [end] = ends(await run(session, "hello"))

    assert isinstance(end.failure, Failure)
    assert end.failure.kind == "not_signed_in"
    assert actor.stage.key in end.failure.hint


@pytest.mark.agents("qwen")
async def test_another_model_in_mid_session_is_refused(any_desk: Desk, actor: Actor) -> None:
    """Set over the wire it would be stored as the user's own setting."""
    any_desk.double.scenarios["hello"] = [reply(Say("Hello."))]
    settings = actor.home / ".qwen" / "settings.json"
    session = await any_desk.start()
    await run(session, "@@hello@@ go")
    before = settings.read_bytes()

    with pytest.raises(Unsupported, match="changing the model during a session"):
        await session.configure(model="other-model")

    assert settings.read_bytes() == before


@pytest.mark.agents("gemini")
async def test_mcp_servers_are_refused_where_gemini_would_not_start_them(
    any_desk: Desk, actor: Actor
) -> None:
    session = await any_desk.start(servers={"tiny": {"command": "true"}})
    with pytest.raises(Unsupported, match="in an untrusted folder") as caught:
        await session.prompt("hello")
    assert "agents.gemini.trust" in caught.value.hint


async def test_its_files_are_those_that_a_bare_run_leaves(
    actor: Actor, double: ModelDouble, tmp_path: Path
) -> None:
    stage = actor.stage
    double.scenarios["work"] = [
        reply(stage.write(actor.project / "made.txt", "x\n")),
        reply(stage.shell("echo y > shell.txt")),
        reply(Say("Done.")),
    ]
    volatile_files = (*stage.volatile_files, *RESTLESS)
    await run_bare(actor, double, "@@work@@ go")
    bare = home_tree(actor.home, volatile_files)
    for name in ("made.txt", "shell.txt"):
        (actor.project / name).unlink()
    actor.home.rename(tmp_path / "bare-home")

    desk = Desk(actor, double, tmp_path)
    session = await desk.start(system="Be brief.")
    log = await run(session, "@@work@@ go")
    await desk.close()

    assert ends(log) == [COMPLETED]
    assert (actor.project / "shell.txt").read_text() == "y\n"
    assert home_tree(actor.home, volatile_files) == bare


async def test_capabilities_besides_prompting(any_desk: Desk, actor: Actor) -> None:
    any_desk.double.scenarios["work"] = [
        reply(actor.stage.write(actor.project / "made.txt", "x\n")),
        reply(Say("Done.")),
    ]
    session = await any_desk.start()
    [ready] = of(await run(session, "@@work@@ please write"), AgentReady)
    await any_desk.sessions.close()
    agent = load(actor.agent)
    environment = actor.environment(any_desk.double.base_url, **{actor.stage.key: KEY})
    agent_commands = CommandRunner(
        environment,
        cwd=actor.home,
        records=any_desk.folder / "records",
        marker="errands",
        binaries={actor.agent: str(actor.program)},
    )
    before = home_tree(actor.home, (*actor.stage.volatile_files, *RESTLESS))

    async with agent_commands as errand:
        there = await agent.installed(errand)
        account = await agent.account(errand)
        models = await agent.models(errand)
        [native] = await agent.native_sessions(errand, actor.project)
        history = await agent.native_history(errand, native)
        after = home_tree(actor.home, (*actor.stage.volatile_files, *RESTLESS))
        await agent.mcp_add(errand, "tiny", {"command": "cat", "env": {"TOKEN": "x"}})
        await agent.mcp_add(errand, "web", {"type": "http", "url": "http://127.0.0.1:9/x"})
        both = await agent.mcp_servers(errand)
        await agent.mcp_remove(errand, "tiny")
        one = await agent.mcp_servers(errand)

    assert (there.path, there.version) == (str(actor.program), actor.version)
    assert account == Account(signed_in=True, method="variable", who=actor.stage.key)
    assert any(model.default for model in models)
    assert isinstance(native, NativeSession)
    assert (native.native_id, native.title) == (ready.native_id, "@@work@@ please write")
    assert [type(event) for event in history] == [
        UserMessage, ToolStarted, ToolFinished, MessageChunk,
    ]  # fmt: skip
    assert after == before
    assert both == [
        McpServer("tiny", "disconnected", "cat"),
        McpServer("web", "disconnected", "http://127.0.0.1:9/x"),
    ]
    assert one == both[1:]
