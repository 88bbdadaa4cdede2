"""ACP agents from rows of the table, run for real with the scripted model."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.real.desk import Desk, agent_text, ends, of, run, shown, until
from tests.real.stages import Actor
from tillerman.core.events import (
    AgentReady,
    Answer,
    Diff,
    MessageChunk,
    PermissionRequested,
    ThoughtChunk,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    UsageReported,
)
from tillerman.testing.model_double.script import Fail, ReplyHold, Say, Think, Usage, reply

pytestmark = [
    pytest.mark.real,
    pytest.mark.agents("claude-agent-acp", "codex-acp"),
    pytest.mark.newest,
    pytest.mark.timeout(120),
]

COMPLETED = TurnEnded(reason="completed")


async def test_text_and_thoughts_of_two_turns(any_desk: Desk, actor: Actor) -> None:
    usage = Usage(input=60, output=15, cache_read=40)
    any_desk.double.scenarios["hello"] = [
        reply(Think("I look."), Say("Good morning.", chunks=4), usage=usage),
        reply(Say("Good night."), usage=usage),
    ]
    session = await any_desk.start()
    first = await run(session, "@@hello@@ hi")
    second = await run(session, "more")
    assert (agent_text(first), agent_text(second)) == ("Good morning.", "Good night.")
    thought = "".join(event.text for event in of(first, ThoughtChunk))
    assert thought.strip() == "I look."
    [ready] = of(first, AgentReady)
    assert ready.version == actor.version
    for used in of(first + second, UsageReported):
        assert used.context_used
    assert ends(first + second) == [COMPLETED, COMPLETED]


async def test_a_command_runs_when_it_is_allowed(any_desk: Desk, actor: Actor) -> None:
    command = "echo out; echo more"
    any_desk.double.scenarios["shell"] = [reply(actor.stage.shell(command)), reply(Say("Done."))]
    session = await any_desk.start()
    log = await run(session, "@@shell@@ do it")
    [call] = of(log, ToolStarted)
    assert (call.tool, call.input["command"]) == ("Bash", command)
    [end] = of(log, ToolFinished)
    assert (end.outcome, shown(end).strip()) == ("completed", "out\nmore")
    assert (agent_text(log), ends(log)) == ("Done.", [COMPLETED])


async def test_a_command_that_fails_has_failed(any_desk: Desk, actor: Actor) -> None:
    any_desk.double.scenarios["fail"] = [
        reply(actor.stage.shell("echo oops; exit 3")),
        reply(Say("It failed.")),
    ]
    session = await any_desk.start()
    log = await run(session, "@@fail@@ do it")
    [end] = of(log, ToolFinished)
    assert end.outcome == "failed"
    assert "oops" in shown(end)
    assert ends(log) == [COMPLETED]


async def test_a_file_is_written_when_it_is_allowed(any_desk: Desk, actor: Actor) -> None:
    path = actor.project / "new.txt"
    any_desk.double.scenarios["write"] = [
        reply(actor.stage.write(path, "one\ntwo\n")),
        reply(Say("Written.")),
    ]
    session = await any_desk.start()
    log = await run(session, "@@write@@ do it")
    assert path.read_text() == "one\ntwo\n"
    [call] = of(log, ToolStarted)
    assert call.tool in ("Write", "Edit")
    assert call.paths == (str(path),)
    [end] = of(log, ToolFinished)
    assert end.outcome == "completed"
    assert Diff(str(path), new="one\ntwo\n") in end.content
    assert ends(log) == [COMPLETED]


@pytest.mark.agents("claude-agent-acp")
async def test_a_person_denies_and_the_agent_continues(any_desk: Desk, actor: Actor) -> None:
    path = actor.project / "new.txt"
    any_desk.double.scenarios["write"] = [
        reply(actor.stage.write(path, "one\n")),
        reply(Say("So be it.")),
    ]
    session = await any_desk.start(approve="ask")
    await session.prompt("@@write@@ do it")
    asked = await until(session, PermissionRequested)
    assert {option.id for option in asked.options} >= {"allow", "deny"}
    session.answer(asked.request_id, Answer("deny"))
    await until(session, TurnEnded)
    log = any_desk.log(session)
    assert [end.outcome for end in of(log, ToolFinished)] == ["denied"]
    assert not path.exists()
    assert (agent_text(log), ends(log)) == ("So be it.", [COMPLETED])


async def test_nothing_is_written_in_plan_mode(any_desk: Desk, actor: Actor) -> None:
    path = actor.project / "new.txt"
    any_desk.double.scenarios["write"] = [
        reply(actor.stage.write(path, "one\n")),
        reply(Say("Only a plan.")),
    ]
    session = await any_desk.start(mode="plan")
    log = await run(session, "@@write@@ do it")
    assert not path.exists()
    assert [end.outcome for end in of(log, ToolFinished)] in (["denied"], ["failed"])


async def test_a_model_is_chosen(any_desk: Desk, actor: Actor) -> None:
    wanted = {"claude-agent-acp": "haiku", "codex-acp": "gpt-5.5"}[actor.agent]
    any_desk.double.scenarios["hello"] = [reply(Say("Yes."))]
    session = await any_desk.start(model=wanted)
    await run(session, "@@hello@@ hi")
    assert wanted in str(any_desk.double.turns[-1].body["model"])


async def test_a_cancel_ends_the_turn_and_the_next_one_works(any_desk: Desk) -> None:
    any_desk.double.scenarios["slow"] = [
        reply(Say("Wait for it"), ReplyHold("never", limit=20)),
        reply(Say("Here.")),
    ]
    session = await any_desk.start()
    await session.prompt("@@slow@@ go")
    await until(session, MessageChunk)
    await session.cancel()
    assert (await until(session, TurnEnded)).reason == "cancelled"
    any_desk.double.release("never")
    log = await run(session, "again")
    assert ends(log)[-1] == COMPLETED


async def test_a_conversation_continues_in_a_new_process(any_desk: Desk) -> None:
    any_desk.double.scenarios["talk"] = [reply(Say("First.")), reply(Say("Second."))]
    session = await any_desk.start()
    await run(session, "@@talk@@ begin")
    await any_desk.reopen()
    again = await any_desk.resume(session.id)
    log = await run(again, "go on")
    assert agent_text(log) == "Second."
    assert "First." in str(any_desk.double.requests[-1].body)


async def test_a_refused_key_is_not_signed_in(any_desk: Desk, actor: Actor) -> None:
    any_desk.double.scenarios["key"] = [Fail(401, message="bad key")] * 12
    session = await any_desk.start()
    log = await run(session, "@@key@@ hi")
    [end] = ends(log)
    assert end.failure
    assert (end.failure.kind, bool(end.failure.hint)) == ("not_signed_in", True)


async def test_a_system_prompt_reaches_the_model(any_desk: Desk) -> None:
    any_desk.double.scenarios["hello"] = [reply(Say("Yes."))]
    session = await any_desk.start(system="Speak like a pirate.")
    await run(session, "@@hello@@ hi")
    assert "Speak like a pirate." in str(any_desk.double.requests[-1].body)


async def test_one_of_our_servers_is_called(any_desk: Desk, actor: Actor) -> None:
    program = Path(__file__).with_name("mcp_server.py")
    servers = {"probe": {"command": sys.executable, "args": [str(program)]}}
    any_desk.double.scenarios["mcp"] = [
        reply(actor.stage.mcp("probe", "shout", {"text": "ping"})),
        reply(Say("Called.")),
    ]
    session = await any_desk.start(servers=servers)
    log = await run(session, "@@mcp@@ do it")
    calls = of(log, ToolStarted)
    assert [call.tool for call in calls] == ["MCP"]
    assert "PING" in shown(of(log, ToolFinished)[0])
    assert agent_text(log) == "Called."
