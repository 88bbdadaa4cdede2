"""The JSON-lines streams of the real Gemini CLI and Qwen Code."""

from __future__ import annotations

from typing import Any

import pytest

from tests.real.desk import (
    Desk,
    agent_text,
    ends,
    of,
    processes_with,
    run,
    shown,
    until,
    until_true,
)
from tests.real.stages import Actor
from tillerman.core.events import (
    AgentReady,
    Answer,
    MessageChunk,
    Notice,
    PermissionRequested,
    ToolFinished,
    ToolStarted,
    TurnEnded,
)
from tillerman.core.failure import Failure
from tillerman.testing.model_double.script import Fail, ReplyHold, Say, reply

pytestmark = [
    pytest.mark.real,
    pytest.mark.agents("gemini", "qwen"),
    pytest.mark.newest,
    pytest.mark.timeout(120),
]

COMPLETED = TurnEnded(reason="completed")
CANCELLED = TurnEnded(reason="cancelled")


def options(actor: Actor) -> dict[str, Any]:
    trust = {"trust": True} if actor.agent == "gemini" else {}  # else it does nothing at all
    return {"surface": "stream-json", **trust}


async def test_two_turns_are_one_conversation(any_desk: Desk, actor: Actor) -> None:
    any_desk.double.scenarios["two"] = [reply(Say("The word is kettle.")), reply(Say("Kettle."))]
    session = await any_desk.start(options=options(actor))

    first = await run(session, "@@two@@ remember")
    second = await run(session, "@@two:1@@ which word?")

    assert (agent_text(first), agent_text(second)) == ("The word is kettle.", "Kettle.")
    assert len(of(first, MessageChunk)) > 1
    assert "The word is kettle." in str(any_desk.double.turns[-1].body)
    log = any_desk.log(session)
    assert len({ready.native_id for ready in of(log, AgentReady)}) == 1
    assert ends(log) == [COMPLETED, COMPLETED]


async def test_tools_run_as_far_as_approval_is_given(any_desk: Desk, actor: Actor) -> None:
    stage, file = actor.stage, actor.project / "made.txt"
    any_desk.double.scenarios["work"] = [
        reply(stage.write(file, "x\n")),
        reply(stage.shell("echo out; touch shell.txt")),
        reply(Say("Done.")),
    ]
    session = await any_desk.start(approve="auto", options=options(actor))

    log = await run(session, "@@work@@ go")

    assert [call.tool for call in of(log, ToolStarted)] == ["Write", "Bash"]
    wrote, ran = of(log, ToolFinished)
    assert (wrote.outcome, ran.outcome, shown(ran)) == ("completed", "completed", "out")
    assert file.read_text() == "x\n"
    asked = [one.tool for one in of(log, PermissionRequested)]
    assert asked == ([] if actor.agent == "gemini" else ["Write", "Bash"])
    assert ends(log) == [COMPLETED]


async def test_a_denied_or_withheld_call_does_not_run(any_desk: Desk, actor: Actor) -> None:
    any_desk.double.scenarios["no"] = [
        reply(actor.stage.write(actor.project / "never.txt", "x\n")),
        reply(Say("I may not.")),
    ]
    session = await any_desk.start(approve="ask", options=options(actor))

    await session.prompt("@@no@@ go")
    if actor.agent == "qwen":
        asked = await until(session, PermissionRequested)
        session.answer(asked.request_id, Answer("deny", note="use a pencil"))
    await session.idle()

    log = any_desk.log(session)
    assert [one.outcome for one in of(log, ToolFinished)] == ["denied"]
    assert not (actor.project / "never.txt").exists()
    assert (agent_text(log), ends(log)) == ("I may not.", [COMPLETED])
    withheld = [notice.text for notice in of(log, Notice) if "disabled" in notice.text]
    assert len(withheld) == (actor.agent == "gemini")


async def test_an_error_of_the_api_is_classified_and_not_emitted_as_text(
    any_desk: Desk, actor: Actor
) -> None:
    any_desk.double.scenarios["broken"] = [Fail(401, message="Incorrect key.")]
    session = await any_desk.start(options=options(actor))

    log = await run(session, "@@broken@@ go")

    [end] = ends(log)
    assert isinstance(end.failure, Failure)
    assert (end.failure.kind, "Incorrect key." in end.failure.message) == ("not_signed_in", True)
    assert agent_text(log) == ""


async def test_an_interrupt_in_a_command_leaves_no_process(any_desk: Desk, actor: Actor) -> None:
    busy = "touch begun; (while :; do sleep 0.21; done) & while :; do sleep 0.2; done"
    any_desk.double.scenarios |= {
        "busy": [reply(actor.stage.shell(busy))],
        "next": [reply(Say("Still here."))],
    }
    session = await any_desk.start(approve="auto", options=options(actor))
    home = f"HOME={actor.home}"

    def sleepers() -> list[str]:
        return [line for line in processes_with(home) if "sleep 0.2" in line]

    await session.prompt("@@busy@@ go")
    await until_true(lambda: len(sleepers()) > 1, within=40)
    await session.cancel()
    await session.idle()
    await until_true(lambda: not sleepers(), within=5)
    await run(session, "@@next@@ go")

    log = any_desk.log(session)
    assert ends(log) == [CANCELLED, COMPLETED]
    assert agent_text(log) == "Still here."


async def test_an_interrupt_in_mid_text_keeps_the_text(any_desk: Desk, actor: Actor) -> None:
    any_desk.double.scenarios |= {
        "hang": [reply(Say("It begins", chunks=1), ReplyHold("never"))],
        "next": [reply(Say("Still here."))],
    }
    session = await any_desk.start(options=options(actor))

    await session.prompt("@@hang@@ go")
    await until(session, MessageChunk)
    await session.cancel()
    await session.idle()
    await run(session, "@@next@@ go")

    log = any_desk.log(session)
    assert ends(log) == [CANCELLED, COMPLETED]
    assert (agent_text(log, 1), agent_text(log, 2)) == ("It begins", "Still here.")


@pytest.mark.agents("gemini")
async def test_an_answer_that_repeats_itself_is_not_reported_as_complete(
    any_desk: Desk, actor: Actor
) -> None:
    """It stops the answer, asks its model once more, and then gives up: with a warning, and as a
    success."""
    loop = reply(Say("Same again. " * 200, chunks=200))
    any_desk.double.scenarios |= {"loop": [loop], "": [loop]}  # it asks without the user's words
    session = await any_desk.start(options=options(actor))

    log = await run(session, "@@loop@@ go")

    [end] = ends(log)
    assert end.failure
    assert (end.failure.kind, end.failure.message) == (
        "turn_limit",
        "Loop detected, stopping execution",
    )
    assert agent_text(log).startswith("Same again. " * 5)
