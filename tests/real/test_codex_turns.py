"""Turns with the real Codex: messages, thoughts, prompts, and resuming."""

from __future__ import annotations

import base64
import json

import pytest

from tests.real.desk import Desk, agent_text, ends, of, run, until
from tillerman.core.agent import File
from tillerman.core.errors import Unsupported
from tillerman.core.events import (
    AgentReady,
    Answer,
    MessageChunk,
    MessageWithdrawn,
    Notice,
    QuestionAsked,
    SettingsChanged,
    ThoughtChunk,
    TurnEnded,
    UsageReported,
    UserMessage,
)
from tillerman.testing.model_double.openai_responses import system_text, user_text
from tillerman.testing.model_double.script import (
    ConnectionCut,
    ModelToolCall,
    ReplyHold,
    Say,
    Think,
    Usage,
    attempts,
    reply,
)

pytestmark = [pytest.mark.real, pytest.mark.agents("codex"), pytest.mark.timeout(90)]

COMPLETED = TurnEnded(reason="completed")
DOT = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
    "gg=="
)


async def test_text_and_thoughts_stream_and_each_is_sent_once(any_desk: Desk) -> None:
    desk = any_desk
    usage = Usage(input=60, output=15, cache_read=40)
    desk.double.scenarios["hello"] = [
        reply(Think("I look around."), Say("Good morning.", chunks=4), usage=usage)
    ]
    session = await desk.start()

    log = await run(session, "@@hello@@ say it")

    assert agent_text(log) == "Good morning."
    assert len(of(log, MessageChunk)) > 1
    assert "".join(thought.text for thought in of(log, ThoughtChunk)) == "I look around."
    [used] = of(log, UsageReported)
    assert (used.input_tokens, used.output_tokens, used.cached_tokens) == (60, 15, 40)
    assert ends(log) == [COMPLETED]
    [ready] = of(desk.log(session), AgentReady)
    assert (ready.model, ready.version) == ("gpt-5.5", desk.player.version)  # type: ignore[attr-defined]


async def test_a_message_whose_stream_broke_is_withdrawn_and_sent_again(any_desk: Desk) -> None:
    desk = any_desk
    desk.double.scenarios["cut"] = [
        attempts(reply(Say("Half of", chunks=1), ConnectionCut()), reply(Say("All of it.")))
    ]
    session = await desk.start()

    log = await run(session, "@@cut@@ go")

    assert agent_text(log) == "All of it."
    assert len(of(log, MessageWithdrawn)) == 1
    assert [notice.kind for notice in of(log, Notice)] == ["retry"]
    assert ends(log) == [COMPLETED]


async def test_an_image_and_a_file_reach_the_model_and_others_are_refused(any_desk: Desk) -> None:
    desk = any_desk
    desk.double.scenarios["look"] = [reply(Say("I see."))]
    session = await desk.start()

    files = [File("dot.png", "image/png", DOT), File("a.txt", "text/plain", b"rare words\n")]
    await run(session, "@@look@@ what is it?", files=files)

    [request] = desk.double.turns
    assert "data:image/png;base64," in json.dumps(request.body["input"])
    assert '<file name="a.txt">\nrare words\n' in user_text(request.body)
    with pytest.raises(Unsupported, match=r"application/x-thing \(a.bin\)"):
        await session.prompt("look", files=[File("a.bin", "application/x-thing", b"\xff\xfe")])


async def test_system_prompt_model_effort_and_schema_reach_the_model(any_desk: Desk) -> None:
    desk = any_desk
    schema = {
        "type": "object",
        "properties": {"answer": {"type": "integer"}},
        "required": ["answer"],
        "additionalProperties": False,
    }
    desk.double.scenarios["ask"] = [reply(Say('{"answer": 42}'))]
    session = await desk.start(
        system="Speak like a pirate.", model="gpt-5.4", effort="high", output_schema=schema
    )

    log = await run(session, "@@ask@@ the question")

    body = desk.double.turns[0].body
    assert "Speak like a pirate." in system_text(body)
    assert (body["model"], body["reasoning"]["effort"]) == ("gpt-5.4", "high")
    assert body["text"]["format"]["schema"] == schema
    assert ends(log) == [TurnEnded(reason="completed", result={"answer": 42})]


async def test_the_model_and_the_mode_change_between_turns(any_desk: Desk) -> None:
    desk = any_desk
    desk.double.scenarios["hello"] = [reply(Say("Hello."))]
    session = await desk.start()
    await run(session, "@@hello@@ one")

    await session.configure(model="gpt-5.4", mode="plan")
    await run(session, "@@hello@@ two")
    await session.configure(mode="agent")
    await run(session, "@@hello@@ three")

    first, second, third = (request.body for request in desk.double.turns)
    assert [body["model"] for body in (first, second, third)] == ["gpt-5.5", "gpt-5.4", "gpt-5.4"]
    modes = [system_text(body).rfind("Plan Mode") > 0 for body in (first, second)]
    assert modes == [False, True]
    assert system_text(third).rfind("Default") > system_text(third).rfind("# Plan Mode")
    changes = of(desk.log(session), SettingsChanged)
    assert SettingsChanged(model="gpt-5.4") in changes
    assert [change.mode for change in changes if change.mode] == ["plan", "agent"]


async def test_in_plan_mode_it_asks_a_question_and_gets_the_answer(any_desk: Desk) -> None:
    desk = any_desk
    choices = [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}]
    asked = {"id": "c", "header": "Color", "question": "Which color?", "options": choices}
    desk.double.scenarios["ask"] = [
        reply(ModelToolCall("request_user_input", {"questions": [asked]}, id="call_q")),
        reply(Say("Thanks.")),
    ]
    session = await desk.start(mode="plan")

    await session.prompt("@@ask@@ go")
    question = await until(session, QuestionAsked)
    session.answer(question.request_id, Answer("allow", answers={"Which color?": "Blue"}))
    await session.idle()

    assert [choice.label for choice in question.questions[0].choices][:2] == ["Red", "Blue"]
    assert ends(desk.log(session)) == [COMPLETED]
    assert "Blue" in json.dumps(desk.double.turns[1].body["input"][-1])


async def test_a_proposed_plan_is_reported(any_desk: Desk) -> None:
    desk = any_desk
    plan = "# Do it\n1. Look.\n2. Act.\n"
    desk.double.scenarios["plan"] = [
        reply(Say(f"Here it is.\n<proposed_plan>\n{plan}</proposed_plan>\n"))
    ]
    session = await desk.start(mode="plan")

    log = await run(session, "@@plan@@ go")

    assert agent_text(log).count(plan) == 1
    assert "proposed_plan" not in agent_text(log)
    assert ends(log) == [COMPLETED]


async def test_steering_reaches_the_running_turn(any_desk: Desk) -> None:
    desk = any_desk
    desk.double.scenarios["steer"] = [
        reply(
            Say("Working. ", chunks=1),
            ReplyHold("go"),
            ModelToolCall("exec_command", {"cmd": "true"}),
        ),
        reply(Say("Green it is.")),
    ]
    session = await desk.start()

    await session.prompt("@@steer@@ begin")
    await until(session, MessageChunk)
    await session.prompt("make it green", when_busy="steer")
    desk.double.release("go")
    await session.idle()

    log = desk.log(session)
    assert of(log, UserMessage) == [UserMessage(text="make it green", how="steer")]
    assert ends(log) == [COMPLETED]
    assert "make it green" in user_text(desk.double.turns[-1].body)


async def test_a_resumed_conversation_continues_in_a_new_process(any_desk: Desk) -> None:
    desk = any_desk
    desk.double.scenarios |= {
        "one": [reply(Say("Noted."), usage=Usage(input=100, output=10))],
        "two": [reply(Say("Plum."), usage=Usage(input=200, output=20))],
    }
    session = await desk.start()
    await run(session, "@@one@@ the word is plum")
    await desk.reopen()

    again = await desk.resume(session.id)
    log = await run(again, "@@two@@ which word?")

    assert agent_text(log) == "Plum."
    assert "the word is plum" in user_text(desk.double.turns[1].body)
    ready = of(desk.log(again), AgentReady)
    assert ready[0].native_id == ready[1].native_id
    [used] = of(log, UsageReported)  # of this turn, though Codex counts on
    assert (used.input_tokens, used.output_tokens) == (200, 20)


async def test_a_fork_leaves_the_earlier_conversation_unchanged(any_desk: Desk) -> None:
    desk = any_desk
    desk.double.scenarios |= {
        "one": [reply(Say("Noted."))],
        "two": [reply(Say("Plum."))],
        "three": [reply(Say("Plum again."))],
    }
    session = await desk.start()
    await run(session, "@@one@@ the word is plum")
    await desk.reopen()

    fork = await desk.resume(session.id, fork=True)
    await run(fork, "@@two@@ which word?")
    await fork.close()
    first = await desk.resume(session.id)
    await run(first, "@@three@@ and now?")

    texts = [user_text(request.body) for request in desk.double.turns]
    assert "the word is plum" in texts[1]
    assert "which word?" not in texts[2]
    forked = of(desk.log(fork), AgentReady)[-1].native_id
    assert forked != of(desk.log(session), AgentReady)[0].native_id


async def test_a_missing_conversation_fails_the_turn_with_a_reason(any_desk: Desk) -> None:
    desk = any_desk
    session = await desk.start(resume="01a1df12-f168-7e02-b835-c4c8f2a2202e")

    log = await run(session, "hello")

    [end] = ends(log)
    assert end.reason == "failed"
    assert end.failure is not None
    assert "no rollout found" in end.failure.message
    assert "start a new session" in end.failure.hint
