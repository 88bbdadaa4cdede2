"""Subagents and background work of the real Claude Code, and the turns they start."""

from __future__ import annotations

import asyncio

import pytest

from tests.real.claude_desk import (
    ClaudeDesk,
    agent_text,
    ends,
    finished,
    of,
    run,
    shown,
    started,
    turns_of,
    until,
    until_true,
)
from tillerman.core.events import (
    Answer,
    BackgroundChanged,
    Entry,
    PermissionRequested,
    RequestAnswered,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)
from tillerman.testing.model_double.anthropic import tool_results
from tillerman.testing.model_double.script import (
    ModelMessage,
    ModelRequest,
    ModelToolCall,
    ReplyHold,
    Say,
    reply,
)

pytestmark = [pytest.mark.real, pytest.mark.timeout(60)]


def subagent(*, background: bool) -> ModelToolCall:
    task = {
        "description": "look around",
        "prompt": "@@child@@ look around",
        "subagent_type": "general-purpose",
        "run_in_background": background,
    }
    return ModelToolCall("Agent", task, id="toolu_agent")


def pwd(call_id: str = "toolu_pwd") -> ModelToolCall:
    return ModelToolCall("Bash", {"command": "pwd", "description": "where"}, id=call_id)


def background(log: list[Entry]) -> list[list[tuple[str, str | None]]]:
    """The background tasks after each change: titles and calls."""
    return [[(t.title, t.call_id) for t in event.tasks] for event in of(log, BackgroundChanged)]


async def test_subagent_work_is_reported_inside_its_call(desk: ClaudeDesk) -> None:
    desk.double.scenarios |= {
        "parent": [reply(subagent(background=False)), reply(Say("It looked."))],
        "child": [reply(pwd()), reply(Say("Seen all of it."))],
    }
    session = await desk.start()

    log = await run(session, "@@parent@@ delegate")

    assert started(log, "toolu_agent").tool == "Task"
    assert started(log, "toolu_agent").parent is None
    assert started(log, "toolu_pwd").parent == "toolu_agent"
    assert finished(log, "toolu_pwd").parent == "toolu_agent"
    assert shown(finished(log, "toolu_pwd")) == str(desk.project)
    [asked] = [e for e in of(log, PermissionRequested) if e.call_id == "toolu_pwd"]
    assert asked.parent == "toolu_agent"
    assert shown(finished(log, "toolu_agent")) == "Seen all of it."
    assert "Seen all of it." in tool_results(desk.double.turns[-1].body)["toolu_agent"]
    assert agent_text(log) == session.result().text == "It looked."
    assert ends(log) == [TurnEnded(reason="completed")]


async def test_a_background_subagent_wakes_the_agent_which_is_not_idle_before(
    desk: ClaudeDesk,
) -> None:
    desk.double.scenarios |= {
        "parent": [
            reply(subagent(background=True)),
            reply(Say("It is under way.")),
            reply(Say("It is done.")),
        ],
        "child": [reply(ReplyHold("main turn is over"), pwd()), reply(Say("Seen all of it."))],
    }
    session = await desk.start()

    await session.prompt("@@parent@@ delegate")
    await until(session, TurnEnded)
    desk.double.release("main turn is over")
    log = [entry async for entry in session.until_idle()]

    starts = [(e.turn, e.event.origin) for e in log if isinstance(e.event, TurnStarted)]
    assert starts == [(1, "prompt"), (2, "agent")]
    assert (agent_text(log, 1), agent_text(log, 2)) == ("It is under way.", "It is done.")
    assert ends(log) == [TurnEnded(reason="completed")] * 2
    # the subagent worked between the turns, on what the first had begun
    assert started(log, "toolu_pwd").parent == "toolu_agent"
    assert turns_of(log, ToolStarted, ToolFinished) == [1, 1, 1, 1]
    listed = background(log)
    assert [("look around", "toolu_agent")] in listed
    assert listed.index([]) == len(listed) - 1
    wake_pipe = await desk.double.seen("parent", 2)
    assert "Seen all of it." in str(wake_pipe.body["messages"][-1])


async def test_a_request_of_a_background_subagent_is_answered_between_the_turns(
    desk: ClaudeDesk,
) -> None:
    target = desk.project / "made.txt"
    write = ModelToolCall(
        "Write", {"file_path": str(target), "content": "by the child\n"}, id="toolu_w"
    )
    desk.double.scenarios |= {
        "parent": [
            reply(subagent(background=True)),
            reply(Say("It is under way.")),
            reply(Say("It is done.")),
        ],
        "child": [reply(ReplyHold("main turn is over"), write), reply(Say("Written."))],
    }
    session = await desk.start(approve="ask")

    await session.prompt("@@parent@@ delegate")
    await until(session, TurnEnded)
    desk.double.release("main turn is over")
    asked = await until(session, PermissionRequested, lambda e: e.tool == "Write")
    assert not target.exists()
    session.answer(asked.request_id, Answer("allow"), surface="test")
    log = [entry async for entry in session.until_idle()]

    assert asked.parent == "toolu_agent"
    assert target.read_text() == "by the child\n"
    answers = {e.request_id: e.by for e in of(log, RequestAnswered)}
    assert answers[asked.request_id] == "person"
    assert finished(log, "toolu_w").outcome == "completed"
    assert agent_text(log, 2) == "It is done."


async def test_a_prompt_while_a_subagent_works_is_a_turn_of_its_own(desk: ClaudeDesk) -> None:
    desk.double.scenarios |= {
        "parent": [
            reply(subagent(background=True)),
            reply(Say("It is under way.")),
            reply(Say("Still at it.")),
            reply(Say("It is done.")),
        ],
        "child": [reply(ReplyHold("asked"), Say("Seen all of it."))],
    }
    session = await desk.start()

    await session.prompt("@@parent@@ delegate")
    await until(session, TurnEnded)
    before = session.last_seq
    await session.prompt("how is it going?")
    await until(session, TurnEnded, since=before)
    desk.double.release("asked")
    log = [entry async for entry in session.until_idle()]

    starts = [(e.turn, e.event.origin) for e in log if isinstance(e.event, TurnStarted)]
    assert starts == [(1, "prompt"), (2, "prompt"), (3, "agent")]
    assert [agent_text(log, turn) for turn in (1, 2, 3)] == [
        "It is under way.",
        "Still at it.",
        "It is done.",
    ]


async def test_a_background_command_wakes_the_agent(desk: ClaudeDesk) -> None:
    gate = desk.project / "gate"
    wait = f"while [ ! -e {gate} ]; do sleep 0.05; done; echo the gate is open"
    call = {"command": wait, "description": "wait at the gate", "run_in_background": True}
    desk.double.scenarios["shell"] = [
        reply(ModelToolCall("Bash", call, id="toolu_bg")),
        reply(Say("It waits.")),
        reply(Say("It is through.")),
    ]
    session = await desk.start()

    await session.prompt("@@shell@@")
    await until(session, TurnEnded)
    gate.touch()
    log = [entry async for entry in session.until_idle()]

    starts = [(e.turn, e.event.origin) for e in log if isinstance(e.event, TurnStarted)]
    assert starts == [(1, "prompt"), (2, "agent")]
    assert (agent_text(log, 1), agent_text(log, 2)) == ("It waits.", "It is through.")
    assert finished(log, "toolu_bg").outcome == "completed"
    listed = background(log)
    assert [("wait at the gate", "toolu_bg")] in listed
    assert listed.index([]) == len(listed) - 1


async def test_a_prompt_at_the_moment_the_agent_wakes_gets_its_own_turn(desk: ClaudeDesk) -> None:
    gate = desk.project / "gate"
    wait = f"while [ ! -e {gate} ]; do sleep 0.02; done; rm {gate}"
    call = ModelToolCall(
        "Bash", {"command": wait, "description": "wait", "run_in_background": True}
    )

    def script(request: ModelRequest) -> ModelMessage:
        begin = "begin" in str(request.body["messages"][-1])
        return reply(call) if begin else reply(Say(f"Reply {request.step}."))

    desk.double.scenarios["race"] = script
    session = await desk.start()
    await run(session, "@@race@@")

    for delay in (0.0, 0.05, 0.1, 0.15, 0.2):
        since = session.last_seq
        await session.prompt("begin")
        await until(session, TurnEnded, since=since)
        gate.touch()
        await asyncio.sleep(delay)  # around the moment it wakes
        await session.prompt("are you there?")
        async with asyncio.timeout(20):
            await session.idle()
        await until_true(lambda: not gate.exists())

    log = desk.log(session)
    prompts = [entry.turn for entry in log if entry.event == ARE_YOU_THERE]
    assert len(prompts) == 5
    assert all(agent_text(log, turn).startswith("Reply") for turn in prompts)


ARE_YOU_THERE = TurnStarted(origin="prompt", prompt="are you there?")


async def test_closing_a_session_ends_its_background_work(desk: ClaudeDesk) -> None:
    call = {"command": "while :; do sleep 1; done", "run_in_background": True, "description": "on"}
    desk.double.scenarios["shell"] = [reply(ModelToolCall("Bash", call)), reply(Say("It runs."))]
    session = await desk.start()

    await session.prompt("@@shell@@")
    await until(session, TurnEnded)
    await session.close()  # that no process is left is checked after every test

    log = desk.log(session)
    assert of(log, BackgroundChanged)[-1].tasks == ()
    assert agent_text(log) == "It runs."
