"""Conformance cases: cancel, timeout, steer, resume, fork and crash."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable
from typing import Any

from tillerman.core.events import MessageChunk, Notice, ToolStarted, TurnEnded, UserMessage
from tillerman.core.program.answer_format import AnswerFormat
from tillerman.sessions.run_settings import TurnLimits
from tillerman.sessions.session import Session
from tillerman.testing.conformance_cases.case import case
from tillerman.testing.conformance_cases.inputs import BIRD
from tillerman.testing.model_double.script import Attempts, Fail, ReplyHold, Say, reply
from tillerman.testing.scenario import (
    MAX_WAIT,
    Act,
    Part,
    Scenario,
    agent_text,
    do,
    of,
    play,
    until,
)

WITHIN = 10.0  # seconds
LONG_START = 45.0  # seconds; some CLIs take long to start on a busy machine
BUSY = "while :; do sleep 0.31; done"  # some agents refuse one long sleep


async def _ended(session: Session) -> TurnEnded:
    async with asyncio.timeout(MAX_WAIT):
        await session.idle()
    return await until(session, TurnEnded)


async def _runs(scene: Scenario) -> None:
    await _until(lambda: _busy(scene))


async def _nothing_left(scene: Scenario) -> None:
    await _until(lambda: not _busy(scene))


def _busy(scene: Scenario) -> bool:
    return any("sleep 0.31" in line for line in scene.left())


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WITHIN):
        while not condition():  # noqa: ASYNC110 - other processes change it
            await asyncio.sleep(0.03)


@case("can be cancelled during a message, and stays usable", "cancel")
async def cancel_in_text(scene: Scenario) -> None:
    session = await scene.start()
    await session.prompt(
        scene.script([Say("It goes on", chunks=1), ReplyHold("end"), Say("and on.")])
    )
    await until(session, MessageChunk)
    await session.cancel()
    assert (await _ended(session)).reason == "cancelled"
    scene.release("end")
    log = await play(session, scene.script([Say("Still here.")]))
    assert agent_text(log) == "Still here.", agent_text(log)


@case("can be cancelled during a command, which is terminated", "cancel")
async def cancel_in_tool(scene: Scenario) -> None:
    session = await scene.start(approve="auto")
    await session.prompt(scene.script([do("shell", BUSY)], [Say("Slept.")]))
    await until(session, ToolStarted, lambda event: event.tool == "Bash")
    await _runs(scene)
    await session.cancel()
    assert (await _ended(session)).reason == "cancelled"
    await _nothing_left(scene)


@case("can be cancelled twice, and stays usable", "cancel")
async def cancel_twice(scene: Scenario) -> None:
    session = await scene.start()
    await session.prompt(
        scene.script([Say("It goes on", chunks=1), ReplyHold("end"), Say("and on.")])
    )
    await until(session, MessageChunk)
    await asyncio.gather(session.cancel(), session.cancel())
    assert await _ended(session) == TurnEnded(reason="cancelled")
    await session.cancel()
    scene.release("end")
    log = await play(session, scene.script([Say("Still here.")]))
    assert (agent_text(log), len(of(log, TurnEnded))) == ("Still here.", 1), log


@case("can be cancelled during a schema retry", "cancel")
async def cancel_in_repair(scene: Scenario) -> None:
    session = await scene.start(answer=AnswerFormat(BIRD, repair=True))
    prose: list[Act] = [Say("It is a heron.")]
    await session.prompt(scene.script(prose, [Say("A bird", chunks=1), ReplyHold("end"), Say(".")]))
    await until(session, MessageChunk, lambda chunk: chunk.text.startswith("A"))
    await session.cancel()
    assert await _ended(session) == TurnEnded(reason="cancelled")
    scene.release("end")


@case("can be cancelled while it retries a model call", "cancel")
async def cancel_in_retry(scene: Scenario) -> None:
    session = await scene.start()
    await session.prompt(scene.script(_overloaded(529)))
    await scene.requested()
    await session.cancel()
    assert await _ended(session) == TurnEnded(reason="cancelled")
    scene.release("end")


def _overloaded(status: int) -> Attempts:
    """Fails, and on the retry sends nothing."""
    fail = Fail(status, message="Overloaded", retry_after=20)
    return Attempts((fail, reply(ReplyHold("end"), Say("Late."))))


async def _runs_out_of_time(
    scene: Scenario,
    works: Callable[[Session], Awaitable[object]],
    *replies: Part,
    **settings: Any,
) -> None:
    """Retries with a longer limit if the agent had not started to work by then."""
    for limit in (scene.at_work, LONG_START):
        session = await scene.start(limits=TurnLimits(turn=limit), **settings)
        await session.prompt(scene.script(*replies))
        begun, over = asyncio.ensure_future(works(session)), asyncio.ensure_future(session.idle())
        await asyncio.wait({begun, over}, timeout=MAX_WAIT, return_when=asyncio.FIRST_COMPLETED)
        reached = begun.done()
        begun.cancel()
        over.cancel()
        ended = await _ended(session)
        assert ended.failure, ended
        assert (ended.reason, ended.failure.kind) == ("failed", "timed_out"), ended
        if reached:
            scene.release("end")
            return
    raise AssertionError("it did not begin to work in time")


@case("times out during a message", "cancel")
async def timeout_in_text(scene: Scenario) -> None:
    words: list[Act] = [
        Say("It goes on", chunks=1),
        ReplyHold("end", limit=MAX_WAIT),
        Say("and on."),
    ]
    await _runs_out_of_time(scene, lambda session: until(session, MessageChunk), words)


@case("times out while it retries a model call", "cancel")
async def timeout_in_retry(scene: Scenario) -> None:
    await _runs_out_of_time(scene, lambda _: scene.requested(), _overloaded(500))


@case("times out during a command, which is terminated", "cancel")
async def timeout_in_tool(scene: Scenario) -> None:
    busy = [do("shell", BUSY)], [Say("Slept.")]
    await _runs_out_of_time(
        scene, lambda session: until(session, ToolStarted), *busy, approve="auto"
    )
    await _nothing_left(scene)


@case("a cost limit ends the turn, or a warning says that usage was reported too late")
async def cost_limit(scene: Scenario) -> None:
    session = await scene.start(limits=TurnLimits(cost=0.000_001), approve="auto")
    log = await play(session, scene.script([do("shell", "true")], [Say("Done.")]))
    [ended] = of(log, TurnEnded)
    if ended.failure:
        assert ended.failure.kind == "cost_limit", ended
    else:
        warnings = [notice.text for notice in of(log, Notice) if notice.kind == "limit"]
        assert any("the turn had already ended" in text for text in warnings), (ended, warnings)


@case("accepts messages during a turn", "steer")
async def steer(scene: Scenario) -> None:
    session = await scene.start(approve="auto")
    prompt = scene.script([Say("First."), do("shell", "sleep 1")], [Say("Then.")], [Say("More.")])
    await session.prompt(prompt)
    await until(session, ToolStarted)
    await session.prompt("mind the heron", when_busy="steer")
    async with asyncio.timeout(MAX_WAIT):
        await session.idle()
    assert "mind the heron" in scene.model_input(), "its model was not told"


@case("resumes a conversation in a new process", "resume")
async def resume(scene: Scenario) -> None:
    session = await scene.start()
    await play(session, scene.script([Say("The bird is a heron.")]))
    await scene.reopen()
    session = await scene.resume(session.id)
    log = await play(session, scene.script([Say("I remember.")]))
    assert agent_text(log) == "I remember.", agent_text(log)
    assert "The bird is a heron." in scene.model_input(), (
        "its model was not told what was said before"
    )


@case("resumes five times, minutes apart, each time in a new process", "resume")
async def resume_often(scene: Scenario) -> None:
    session = await scene.start()
    await play(session, scene.script([Say("The bird is a heron.")]))
    for number in range(5):
        await scene.reopen()
        scene.age(150)
        session = await scene.resume(session.id)
        log = await play(session, scene.script([Say(f"Resumed {number}.")]))
        assert agent_text(log) == f"Resumed {number}.", (
            number,
            agent_text(log),
            of(log, TurnEnded),
        )
        assert not of(log, UserMessage), f"resume {number + 1}: {of(log, Notice)}"
    assert "The bird is a heron." in scene.model_input(), (
        "its model was not told what was said first"
    )


@case("resumes three times after a cancelled turn", "resume", "cancel")
async def resume_after_cancel(scene: Scenario) -> None:
    session = await scene.start()
    await play(session, scene.script([Say("The bird is a heron.")]))
    await session.prompt(
        scene.script([Say("It goes on", chunks=1), ReplyHold("end"), Say("and on.")])
    )
    await until(session, MessageChunk, lambda chunk: chunk.text.startswith("It"))
    await session.cancel()
    await until(session, TurnEnded, lambda end: end.reason == "cancelled")
    scene.release("end")
    for number in range(3):
        await scene.reopen()
        scene.age(150)
        session = await scene.resume(session.id)
        log = await play(session, scene.script([Say(f"Resumed {number}.")]))
        assert agent_text(log) == f"Resumed {number}.", (
            number,
            agent_text(log),
            of(log, TurnEnded),
        )
        assert not of(log, UserMessage), f"resume {number + 1}: {of(log, Notice)}"
    assert "The bird is a heron." in scene.model_input(), (
        "its model was not told what was said first"
    )


@case("continues with tillerman's history if its own is lost", "resume")
async def history_lost(scene: Scenario) -> None:
    session = await scene.start()
    await play(session, scene.script([Say("The bird is a heron.")]))
    await scene.reopen()
    scene.forget()
    session = await scene.resume(session.id)
    log = await play(session, scene.script([Say("I was told.")]), starts=2)
    assert agent_text(log) == "I was told.", (agent_text(log), of(log, TurnEnded))
    notices = [event.level for event in of(log, Notice) if event.kind == "handoff"]
    assert notices == ["warning"], of(log, Notice)
    log = await play(session, scene.script([Say("Still here.")]))
    assert agent_text(log) == "Still here.", (agent_text(log), of(log, TurnEnded))
    assert "The bird is a heron." in scene.model_input(), (
        "its model was not told what was said before"
    )


@case("continues in a fork, and leaves the original unchanged", "fork")
async def fork(scene: Scenario) -> None:
    session = await scene.start()
    await play(session, scene.script([Say("The bird is a heron.")]))
    copy = await scene.resume(session.id, fork=True)
    log = await play(copy, scene.script([Say("In the copy.")]))
    assert agent_text(log) == "In the copy.", agent_text(log)
    assert "The bird is a heron." in scene.model_input(), (
        "the copy does not know what was said before"
    )
    await scene.reopen()
    await play(await scene.resume(session.id), scene.script([Say("In the original.")]))
    assert "In the copy." not in scene.model_input(), "the copy's words are in the original"


@case("a killed agent fails the turn and leaves no processes")
async def killed(scene: Scenario) -> None:
    session = await scene.start(approve="auto")
    await session.prompt(scene.script([do("shell", BUSY)], [Say("Slept.")]))
    await until(session, ToolStarted)
    await _runs(scene)
    for line in scene.left():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(line.split()[0]), signal.SIGKILL)
    ended = await _ended(session)
    assert ended.failure, ended
    assert (ended.reason, ended.failure.kind) == ("failed", "agent_crashed"), ended
    await _nothing_left(scene)
