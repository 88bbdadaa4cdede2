"""Turns with the real OpenCode and Copilot over ACP: messages, tools, decisions, failures.

Their start takes seconds, so a session has many turns here.
"""

from __future__ import annotations

import asyncio
import base64
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.real.desk import (
    Desk,
    agent_text,
    ends,
    of,
    processes_with,
    shown,
    until,
    until_true,
    usages,
)
from tests.real.stages import Actor
from tests.real.standing import Later, StandingDesk
from tillerman.core.agent import File
from tillerman.core.events import (
    AgentReady,
    Answer,
    Diff,
    Entry,
    MessageChunk,
    Notice,
    PermissionRequested,
    PlanChanged,
    PlanStep,
    RequestAnswered,
    ThoughtChunk,
    ToolFinished,
    ToolStarted,
    TurnEnded,
)
from tillerman.sessions.session import Session
from tillerman.testing.model_double.script import (
    Fail,
    ReplyHold,
    Say,
    Think,
    Usage,
    attempts,
    overflow,
    reply,
)
from tillerman.testing.model_double.server import api_of

pytestmark = [
    pytest.mark.real,
    pytest.mark.agents("opencode", "copilot"),
    pytest.mark.timeout(240),
    pytest.mark.asyncio(loop_scope="module"),
]

MAX_WAIT = 100.0  # seconds: on a busy machine OpenCode takes half a minute to start
COMPLETED = TurnEnded(reason="completed")
CANCELLED = TurnEnded(reason="cancelled")
SERVER = {"command": sys.executable, "args": [str(Path(__file__).with_name("mcp_server.py"))]}
PIXEL = base64.b64decode(  # a whole one: OpenCode looks into it
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
)

# OpenCode shows images only to a model that is known to see; Copilot takes no such option.
_MODEL = {"modalities": {"input": ["text", "image"], "output": ["text"]}}
SEES = {"provider": {"scripted": {"models": {"scripted": _MODEL}}}}


@pytest.fixture
def actor(standing: StandingDesk) -> Actor:
    assert isinstance(standing.player, Actor)
    return standing.player


@pytest.fixture
def any_desk(standing_desk: StandingDesk) -> Desk:
    return standing_desk


async def begin(desk: Desk, **settings: Any) -> Session:
    session = await desk.start(**settings)
    if isinstance(session, Later):
        return session
    async with asyncio.timeout(MAX_WAIT):
        async for entry in session.entries(0):
            if isinstance(entry.event, AgentReady):
                break
    return session


async def run(session: Session, text: str, **more: Any) -> list[Entry]:
    async with asyncio.timeout(MAX_WAIT):
        return [entry async for entry in session.run(text, **more)]


async def test_text_thoughts_usage_an_image_and_a_system_prompt(
    any_desk: Desk, actor: Actor
) -> None:
    used = Usage(input=100, output=20)
    any_desk.double.scenarios["hello"] = [
        reply(Think("Let me see."), Say("Good morning to you.", chunks=4), usage=used),
        reply(Say("Good night."), usage=used),
        reply(Say("A dot."), usage=used),
    ]
    session = await begin(any_desk, system="You are a kettle. Whistle.", options={"config": SEES})

    first = await run(session, "@@hello@@ go")
    second = await run(session, "@@hello:1@@ more")
    await run(session, "@@hello:2@@ see", files=[File("dot.png", "image/png", PIXEL)])

    [ready] = of(first, AgentReady)
    assert ready.version == actor.version
    assert (agent_text(first), agent_text(second)) == ("Good morning to you.", "Good night.")
    assert len(of(first, MessageChunk)) == 4
    assert "".join(chunk.text for chunk in of(first, ThoughtChunk)) == "Let me see."
    for entries in (first, second):
        [counted] = usages(entries)
        assert (counted.input_tokens, counted.output_tokens) == (100, 20)
        assert counted.context_used
    assert "You are a kettle. Whistle." in str(any_desk.double.turns[0].body)
    assert base64.b64encode(PIXEL).decode() in str(any_desk.double.turns[2].body)
    assert ends(any_desk.log(session)) == [COMPLETED] * 3


async def test_files_commands_and_servers_are_requested_run_and_shown(
    any_desk: Desk, actor: Actor
) -> None:
    stage, file = actor.stage, actor.project / "made.txt"
    any_desk.double.scenarios |= {
        "files": [
            reply(stage.write(file, "one\ntwo\n")),
            reply(stage.read(file)),
            reply(stage.edit(file, "two", "three")),
            reply(Say("Done.")),
        ],
        "sh": [
            reply(stage.shell("echo one; cat made.txt")),
            reply(stage.shell("echo oops; exit 3")),
            reply(Say("Ran.")),
        ],
        "mcp": [reply(stage.mcp("tiny", "shout", {"text": "hi"})), reply(Say("Shouted."))],
    }
    session = await begin(any_desk, servers={"tiny": SERVER})

    files = await run(session, "@@files@@ go")
    commands = await run(session, "@@sh@@ go")
    server = await run(session, "@@mcp@@ go")

    assert file.read_text() == "one\nthree\n"
    assert [(call.tool, call.title) for call in of(files, ToolStarted)] == [
        ("Write", "Write `made.txt`"),
        ("Read", "Read `made.txt`"),
        ("Edit", "Edit `made.txt`"),
    ]
    written, read, edited = of(files, ToolFinished)
    assert [one.outcome for one in (written, read, edited)] == ["completed"] * 3
    assert written.content == (Diff(str(file), new="one\ntwo\n"),)
    assert edited.content == (Diff(str(file), old="two", new="three"),)
    assert [one.tool for one in of(files, PermissionRequested)] == ["Write", "Read", "Edit"]
    assert {answer.by for answer in of(files, RequestAnswered)} == {"policy"}

    fine, failed = of(commands, ToolFinished)
    assert (fine.outcome, shown(fine)) == ("completed", "one\none\nthree\n")
    assert (failed.outcome, shown(failed)) == ("failed", "oops\n")
    assert [one.input["command"] for one in of(commands, PermissionRequested)] == [
        "echo one; cat made.txt",
        "echo oops; exit 3",
    ]

    [call], [end] = of(server, ToolStarted), of(server, ToolFinished)
    assert (call.tool, call.title) == ("MCP", "MCP `tiny.shout`")
    assert (end.outcome, shown(end)) == ("completed", "HI")
    assert ends(any_desk.log(session)) == [COMPLETED] * 3


async def test_a_denied_call_does_not_run_and_the_model_continues_with_the_reason(
    any_desk: Desk, actor: Actor
) -> None:
    any_desk.double.scenarios["no"] = [
        reply(actor.stage.write(actor.project / "never.txt", "x\n")),
        reply(Say("Then with a pencil.")),
    ]
    session = await begin(any_desk, approve="ask")

    await session.prompt("@@no@@ go")
    asked = await until(session, PermissionRequested)
    session.answer(asked.request_id, Answer("deny", note="use a pencil"))
    await session.idle()

    log = any_desk.log(session)
    assert [one.outcome for one in of(log, ToolFinished)] == ["denied"]
    assert not (actor.project / "never.txt").exists()
    assert "use a pencil" in str(any_desk.double.turns[-1].body)
    assert (agent_text(log), ends(log)) == ("Then with a pencil.", [COMPLETED])


async def test_after_interrupts_in_text_in_a_request_and_in_a_command_the_session_works(
    any_desk: Desk, actor: Actor
) -> None:
    busy = "touch begun; (while :; do sleep 0.21; done) & while :; do sleep 0.2; done"
    any_desk.double.scenarios |= {
        "hang": [reply(Say("It begins", chunks=1), ReplyHold("never"))],
        "busy": [reply(actor.stage.shell(busy))],
        "next": [reply(Say("Still here."))],
    }
    session = await begin(any_desk, approve="ask")
    home = f"HOME={actor.home}"

    def sleepers() -> list[str]:
        return [line for line in processes_with(home) if "sleep 0.2" in line]

    await session.prompt("@@hang@@ go")
    await until(session, MessageChunk)
    await session.cancel()
    await session.idle()

    await session.prompt("@@busy@@ go")
    asked = await until(session, PermissionRequested)
    await session.cancel()
    await session.idle()
    assert not (actor.project / "begun").exists()

    await session.prompt("@@busy@@ go")
    again = await until(session, PermissionRequested, lambda one: one != asked)
    session.answer(again.request_id, Answer("allow"))
    await until_true(lambda: len(sleepers()) > 1)
    await session.cancel()
    await session.idle()
    await until_true(lambda: not sleepers(), within=5)

    await run(session, "@@next@@ go")
    log = any_desk.log(session)
    assert ends(log) == [CANCELLED, CANCELLED, CANCELLED, COMPLETED]
    assert [one.by for one in of(log, RequestAnswered)] == ["withdrawn", "person"]
    waiting, running = (one.outcome for one in of(log, ToolFinished))
    assert waiting in (
        "cancelled",
        "denied",
    )  # by Copilot's hook, which is let go without an answer
    assert running == "cancelled"
    assert (agent_text(log, 1), agent_text(log, 4)) == ("It begins", "Still here.")


@pytest.mark.anew
async def test_a_session_that_is_closed_within_a_command_leaves_no_process(
    any_desk: Desk, actor: Actor
) -> None:
    busy = "(while :; do sleep 0.21; done) & while :; do sleep 0.2; done"
    any_desk.double.scenarios["busy"] = [reply(actor.stage.shell(busy))]
    session = await begin(any_desk)
    home = f"HOME={actor.home}"

    await session.prompt("@@busy@@ go")
    await until_true(lambda: sum("sleep 0.2" in line for line in processes_with(home)) > 1, 40)
    await session.close()

    await until_true(lambda: not processes_with(home), within=5)
    assert ends(any_desk.log(session)) == [CANCELLED]


@pytest.mark.anew
async def test_a_conversation_continues_in_a_new_process(any_desk: Desk, actor: Actor) -> None:
    any_desk.double.scenarios |= {
        "one": [reply(Say("The word is kettle."))],
        "two": [reply(Say("It was kettle."))],
    }
    session = await begin(any_desk)
    before = await run(session, "@@one@@ go")
    await any_desk.reopen()

    again = await any_desk.resume(session.id)
    after = await run(again, "@@two@@ go")

    assert agent_text(after) == "It was kettle."
    assert "The word is kettle." in str(any_desk.double.turns[-1].body)
    assert [one.native_id for one in of(after, AgentReady)] == [
        one.native_id for one in of(before, AgentReady)
    ]
    [counted] = usages(after)
    assert (counted.input_tokens, counted.output_tokens) == (100, 20)


async def test_plan_mode_writes_nothing_even_if_allowed(any_desk: Desk, actor: Actor) -> None:
    any_desk.double.scenarios["try"] = [
        reply(actor.stage.write(actor.project / "never.txt", "x\n")),
        reply(Say("I only look.")),
    ]
    session = await begin(any_desk, mode="plan")

    log = await run(session, "@@try@@ go")

    assert not (actor.project / "never.txt").exists()
    assert [one.outcome for one in of(log, ToolFinished)] == ["denied"]
    assert (agent_text(log), ends(log)) == ("I only look.", [COMPLETED])


async def test_ask_mode_writes_nothing_even_if_allowed(any_desk: Desk, actor: Actor) -> None:
    any_desk.double.scenarios["try"] = [
        reply(actor.stage.write(actor.project / "never.txt", "x\n")),
        reply(Say("I only look.")),
    ]
    session = await begin(any_desk, mode="ask")

    log = await run(session, "@@try@@ go")

    assert not (actor.project / "never.txt").exists()
    assert [one.outcome for one in of(log, ToolFinished)] == ["denied"]


async def test_failures_of_the_api_are_classified_and_the_next_turn_works(
    any_desk: Desk, actor: Actor
) -> None:
    limited = Fail(429, message="Rate limit reached.", retry_after=1)
    any_desk.double.scenarios |= {
        "e401": [Fail(401, message="Incorrect API key provided.")],
        "e404": [Fail(404, message="The model `nope` does not exist.")],
        "e429": [attempts(limited, reply(Say("Recovered.")))],
        "next": [reply(Say("Still here."))],
    }
    session = await begin(any_desk)

    unauthorized = await run(session, "@@e401@@ go")
    missing = await run(session, "@@e404@@ go")
    recovered = await run(session, "@@e429@@ go")
    after = await run(session, "@@next@@ go")

    kinds = []
    for entries in (unauthorized, missing):
        [end] = ends(entries)
        assert end.failure is not None
        assert end.failure.hint
        kinds.append((end.reason, end.failure.kind, agent_text(entries)))
    assert kinds == [("failed", "not_signed_in", ""), ("failed", "model_not_found", "")]
    assert (agent_text(recovered), ends(recovered)) == ("Recovered.", [COMPLETED])
    assert (agent_text(after), ends(after)) == ("Still here.", [COMPLETED])


@pytest.mark.anew
@pytest.mark.agents("copilot")
async def test_failures_that_copilot_does_not_retry(any_desk: Desk) -> None:
    limited = Fail(429, message="Rate limit reached.", retry_after=1)
    any_desk.double.scenarios |= {"e429": [limited], "full": [overflow()]}
    session = await begin(any_desk)

    exhausted = await run(session, "@@e429@@ go")
    full = await run(session, "@@full@@ go")

    failures = [end.failure for end in (*ends(exhausted), *ends(full))]
    assert [one.kind for one in failures if one] == ["rate_limited", "context_overflow"]
    assert of(full, Notice)[0].kind == "retry"


@pytest.mark.agents("opencode")
async def test_a_model_unknown_to_opencode_fails_the_turn(any_desk: Desk) -> None:
    session = await any_desk.start(model="scripted/nope")

    [end] = ends(await run(session, "@@hello@@ go"))

    assert end.failure is not None
    assert (end.reason, end.failure.kind) == ("failed", "model_not_found")
    assert any_desk.double.turns == []


@pytest.mark.anew
@pytest.mark.agents("opencode")
async def test_opencodes_plan_is_reported_and_a_fork_leaves_the_first_unchanged(
    any_desk: Desk, actor: Actor
) -> None:
    todo = actor.stage.todo(("Look", "in_progress"), ("Act", "pending"))
    any_desk.double.scenarios |= {
        "plan": [reply(todo), reply(Say("The word is kettle."))],
        "two": [reply(Say("It was kettle."))],
    }
    session = await begin(any_desk)
    planned = await run(session, "@@plan@@ go")
    [first] = of(planned, AgentReady)
    await session.close()

    forked = await any_desk.resume(session.id, fork=True)
    log = await run(forked, "@@two@@ go")

    steps = (PlanStep("Look", "in_progress"), PlanStep("Act"))
    assert of(planned, PlanChanged) == [PlanChanged(steps=steps)]
    assert of(planned, PermissionRequested) == []
    assert "The word is kettle." in str(any_desk.double.turns[-1].body)
    [second] = of(log, AgentReady)
    assert second.native_id != first.native_id
    last = any_desk.double.turns[-1]
    assert api_of(last).tool_results(last.body)
