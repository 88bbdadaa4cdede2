"""Interrupting, steering and configuring the real Claude Code while it runs."""

from __future__ import annotations

import pytest

from tests.real.desk import (
    agent_text,
    ends,
    finished,
    of,
    processes_with,
    run,
    until,
    until_true,
    usages,
)
from tests.real.standing import StandingDesk
from tillerman.core.events import (
    Answer,
    MessageChunk,
    PermissionRequested,
    RequestAnswered,
    SettingsChanged,
    ToolFinished,
    TurnEnded,
    UserMessage,
)
from tillerman.sessions.run_settings import TurnLimits
from tillerman.testing.model_double.anthropic import user_text
from tillerman.testing.model_double.script import ModelToolCall, ReplyHold, Say, reply

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(60),
    pytest.mark.asyncio(loop_scope="module"),
]


CANCELLED = TurnEnded(reason="cancelled")
COMPLETED = TurnEnded(reason="completed")


async def test_an_interrupt_in_mid_text_ends_the_turn_and_the_session_continues(
    desk: StandingDesk,
) -> None:
    desk.double.scenarios |= {
        "hang": [reply(Say("It begins", chunks=1), ReplyHold("never"))],
        "next": [reply(Say("Still here."))],
    }
    session = await desk.start()

    await session.prompt("@@hang@@")
    await until(session, MessageChunk)
    await session.cancel()
    await session.idle()
    await run(session, "@@next@@")

    log = desk.log(session)
    assert ends(log) == [CANCELLED, COMPLETED]
    assert (agent_text(log, 1), agent_text(log, 2)) == ("It begins", "Still here.")


async def test_an_interrupt_in_a_command_ends_its_processes_and_the_session_continues(
    desk: StandingDesk,
) -> None:
    busy = "while :; do sleep 0.2; done"
    call = {"command": busy, "description": "be busy"}
    desk.double.scenarios |= {
        "busy": [reply(ModelToolCall("Bash", call, id="toolu_b")), reply(Say("never said"))],
        "next": [reply(Say("Still here."))],
    }
    session = await desk.start()
    home = f"HOME={desk.player.home}"

    def shells() -> list[str]:
        return [line for line in processes_with(home) if "sleep 0.2" in line]

    await session.prompt("@@busy@@")
    await until_true(lambda: bool(shells()))
    await session.cancel()
    await session.idle()
    await until_true(lambda: not shells(), within=2)
    log = await run(session, "@@next@@")

    assert ends(log) == [COMPLETED]
    assert agent_text(log) == "Still here."
    log = desk.log(session)
    assert ends(log)[0] == CANCELLED
    assert finished(log, "toolu_b").outcome == "cancelled"


async def test_an_interrupt_withdraws_the_open_request(desk: StandingDesk) -> None:
    target = desk.project / "never.txt"
    write = {"file_path": str(target), "content": "no"}
    desk.double.scenarios |= {
        "write": [reply(ModelToolCall("Write", write, id="toolu_w")), reply(Say("never said"))],
        "next": [reply(Say("Still here."))],
    }
    session = await desk.start(approve="ask")

    await session.prompt("@@write@@")
    asked = await until(session, PermissionRequested)
    await session.cancel()
    await session.idle()
    await run(session, "@@next@@")

    log = desk.log(session)
    assert [(e.request_id, e.by) for e in of(log, RequestAnswered)] == [
        (asked.request_id, "withdrawn")
    ]
    assert ends(log) == [CANCELLED, COMPLETED]
    assert finished(log, "toolu_w").outcome == "cancelled"
    assert not target.exists()


async def test_an_interrupt_ends_a_background_subagent(desk: StandingDesk) -> None:
    task = {
        "description": "look around",
        "prompt": "@@child@@ look around",
        "subagent_type": "general-purpose",
        "run_in_background": True,
    }
    desk.double.scenarios |= {
        "parent": [
            reply(ModelToolCall("Agent", task)),
            reply(Say("Under way.")),
            reply(Say("Stopped.")),
        ],
        "child": [reply(ReplyHold("never"), Say("never said"))],
        "next": [reply(Say("Still here."))],
    }
    session = await desk.start()

    await session.prompt("@@parent@@")
    await until(session, TurnEnded)
    await session.cancel()
    await session.idle()
    log = await run(session, "@@next@@")

    assert (agent_text(log), ends(log)) == ("Still here.", [COMPLETED])
    await session.close()  # the end may still be reported to it


async def test_a_turn_past_its_time_limit_fails_and_the_session_continues(
    desk: StandingDesk,
) -> None:
    desk.double.scenarios |= {
        "hang": [reply(Say("It begins", chunks=1), ReplyHold("never"))],
        "next": [reply(Say("Still here."))],
    }
    session = await desk.start(limits=TurnLimits(turn=3))

    await run(session, "@@hang@@")
    first = session.result()
    await run(session, "@@next@@")

    assert first.status == "failed"
    assert first.failure and first.failure.kind == "timed_out"
    assert session.result().text == "Still here."


async def test_messages_in_mid_turn_reach_the_model_in_the_same_turn(desk: StandingDesk) -> None:
    call = {"command": "touch busy", "description": "busy"}
    desk.double.scenarios["steer"] = [
        reply(ModelToolCall("Bash", call, id="toolu_echo")),
        reply(Say("Understood.")),
    ]
    session = await desk.start(approve="ask")

    await session.prompt("@@steer@@ begin")
    asked = await until(session, PermissionRequested)
    await session.prompt("make it green", when_busy="steer")
    session.answer(asked.request_id, Answer("allow"))
    await session.idle()

    log = desk.log(session)
    assert of(log, UserMessage) == [UserMessage(text="make it green", how="steer")]
    assert ends(log) == [COMPLETED]
    assert agent_text(log) == "Understood."
    assert "make it green" in user_text((await desk.double.seen("steer", 1)).body)


async def test_messages_after_the_last_call_are_still_answered_in_the_same_turn(
    desk: StandingDesk,
) -> None:
    desk.double.scenarios["late"] = [
        reply(Say("Blue. ", chunks=1), ReplyHold("steered"), Say("That is all. ", chunks=1)),
        reply(Say("Green.")),
    ]
    session = await desk.start()

    await session.prompt("@@late@@ begin")
    await until(session, MessageChunk)
    await session.prompt("make it green", when_busy="steer")
    await session.configure(model="claude-opus-4-8")  # answered after what came before it
    await until(session, SettingsChanged, lambda event: event.model is not None)
    desk.double.release("steered")
    await session.idle()

    log = desk.log(session)
    assert agent_text(log) == "Blue. That is all. Green."
    assert ends(log) == [COMPLETED]
    assert [report.output_tokens for report in usages(log)] == [40]


async def test_a_cancel_withdraws_waiting_messages(desk: StandingDesk) -> None:
    desk.double.scenarios |= {
        "hang": [reply(Say("It begins", chunks=1), ReplyHold("never")), reply(Say("never said"))],
        "next": [reply(Say("Still here."))],
    }
    session = await desk.start()

    await session.prompt("@@hang@@")
    await until(session, MessageChunk)
    await session.prompt("make it green", when_busy="steer")
    await session.cancel()
    await session.idle()
    await run(session, "@@next@@")

    log = desk.log(session)
    assert ends(log) == [CANCELLED, COMPLETED]
    assert (agent_text(log, 1), agent_text(log, 2)) == ("It begins", "Still here.")


async def test_a_queued_prompt_is_the_next_turn(desk: StandingDesk) -> None:
    desk.double.scenarios["queue"] = [
        reply(ReplyHold("queued"), Say("One.")),
        reply(Say("Two.")),
    ]
    session = await desk.start()

    await session.prompt("@@queue@@ begin")
    await desk.double.seen("queue")
    await session.prompt("and then", when_busy="queue")
    desk.double.release("queued")
    await session.idle()

    log = desk.log(session)
    assert (agent_text(log, 1), agent_text(log, 2)) == ("One.", "Two.")
    assert ends(log) == [COMPLETED] * 2


async def test_the_model_can_be_set_between_turns(desk: StandingDesk) -> None:
    desk.double.scenarios["model"] = [reply(Say("One.")), reply(Say("Two."))]
    session = await desk.start(model="claude-sonnet-4-5")

    await run(session, "@@model@@")
    await session.configure(model="claude-opus-4-8")
    log = await run(session, "go on")

    models = [turn.body["model"] for turn in desk.double.turns]
    assert models == ["claude-sonnet-4-5", "claude-opus-4-8"]
    assert agent_text(log) == "Two."
    reported = [event.model for event in of(desk.log(session), SettingsChanged) if event.model]
    assert reported == ["claude-opus-4-8"]


async def test_the_mode_can_be_set_in_a_live_session_and_back(desk: StandingDesk) -> None:
    def write(name: str) -> ModelToolCall:
        return ModelToolCall("Write", {"file_path": str(desk.project / name), "content": "x"})

    desk.double.scenarios["mode"] = [
        reply(write("one")),
        reply(Say("Not written.")),
        reply(write("two")),
        reply(Say("Written.")),
    ]
    session = await desk.start()

    await session.configure(mode="plan")
    await run(session, "@@mode@@")
    await session.configure(mode="agent")
    await run(session, "go on")

    log = desk.log(session)
    assert [path.name for path in desk.project.iterdir() if path.name != ".git"] == ["two"]
    assert [e.outcome for e in of(log, ToolFinished)] == ["denied", "completed"]
    assert [e.mode for e in of(log, SettingsChanged) if e.mode] == ["plan", "agent"]


async def test_a_level_of_effort_is_accepted_and_reaches_the_model(desk: StandingDesk) -> None:
    desk.double.scenarios["effort"] = [reply(Say("Hard."))]
    session = await desk.start(effort="low")

    log = await run(session, "@@effort@@")

    assert ends(log) == [COMPLETED]
    assert desk.double.turns[0].body["output_config"]["effort"] == "low"
