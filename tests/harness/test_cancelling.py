"""Cancelling `ask`, `run`, `query` at any moment leaves no task running, and a usable session."""

from __future__ import annotations

import asyncio
import gc
import random
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

import pytest

import tillerman
from tests.harness.api_desk import (
    QUESTION,
    Left,
    check_log,
    entries,
    harness_in,
    of,
    script,
)
from tillerman.core.events import TurnEnded, TurnStarted
from tillerman.core.program.python_tools import tool_server

CASES = 24


def any_script(draw: random.Random) -> str:
    steps: list[dict[str, Any]] = [
        {"say": "word " * draw.choice([1, 20, 300])},
        {"think": "thought"},
        {"write": "a.txt", "text": "1\n"},
        {"run": draw.choice(["true", "sleep 0.05", "sleep 5"])},
        {"sleep": draw.choice([0.01, 0.1])},
        {"hang": True},
        {"plan": ["one", "two"]},
        {"notice": "attention"},
        {"call": "py.nap", "input": {"seconds": draw.choice([0, 0.05, 5])}},
        {"task": "subtask", "steps": [{"say": "inside"}, {"run": "sleep 0.05"}]},
        {"parallel": [{"run": "sleep 0.05"}, {"run": "true"}]},
        QUESTION,
        {"usage": {"input_tokens": 1, "output_tokens": 1}},
        {"fail": "agent_failed", "message": "no"},
        {"crash": 1},
    ]
    return script(*draw.choices(steps, k=draw.randint(1, 6)))


async def nap(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "rested"


async def slow_answer(request: object) -> tillerman.Answer | None:
    await asyncio.sleep(0.05)
    return tillerman.Answer("allow", answers={"Which?": "red"})


def options(draw: random.Random) -> dict[str, Any]:
    given: dict[str, Any] = {"approve": draw.choice(["auto", "ask", "edits"])}
    given["on_permission"] = given["on_question"] = slow_answer
    if draw.random() < 0.5:
        given["servers"] = {"py": tool_server(nap)}
    if draw.random() < 0.3:
        given["before_call"] = slow_answer
    if draw.random() < 0.3:
        given["workspace_tools"] = True
    return given


async def asks(session: tillerman.Session, text: str) -> None:
    await session.ask(text)


async def runs(session: tillerman.Session, text: str) -> None:
    async with aclosing(session.run(text)) as log:
        async for _ in log:
            await asyncio.sleep(0)


async def leaves_early(session: tillerman.Session, text: str) -> None:
    async with aclosing(session.run(text)) as log:
        number = 0
        async for _ in log:
            number += 1
            if number > 3:
                break


async def times_out(session: tillerman.Session, text: str) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(session.ask(text), 0.15)


WAYS: list[Callable[[tillerman.Session, str], Awaitable[None]]] = [
    asks, runs, leaves_early, times_out,
]  # fmt: skip


async def cancelled_after(work: Awaitable[None], seconds: float) -> None:
    task = asyncio.ensure_future(work)
    await asyncio.wait([task], timeout=seconds)
    task.cancel()
    with suppress(asyncio.CancelledError):
        async with asyncio.timeout(20):
            await task


async def idle(session: tillerman.Session) -> None:
    try:
        async with asyncio.timeout(12):
            await session.idle()
    except TimeoutError:
        turn = session._runner._turn
        state = turn.machine.state, turn.idle.is_set(), len(turn._queue), turn.background
        tasks = [str(task.get_coro()) for task in asyncio.all_tasks()]
        raise AssertionError((state, bool(turn._parts.until), tasks, entries(session))) from None


@pytest.mark.parametrize("seed", range(CASES))
@pytest.mark.filterwarnings("error")
async def test_a_cancelled_turn_ends_once_and_the_session_continues(
    tmp_path: Path, seed: int
) -> None:
    draw = random.Random(f"cancel {seed}")
    before = Left()
    async with harness_in(tmp_path) as harness:
        session = await harness.start("mock", **options(draw))
        for _ in range(draw.randint(1, 3)):
            way = draw.choice(WAYS)
            await cancelled_after(way(session, any_script(draw)), draw.uniform(0, 0.8))
            await idle(session)
            started, ended = of(entries(session), TurnStarted), of(entries(session), TurnEnded)
            assert len(started) == len(ended)
        async with asyncio.timeout(20):
            result = await session.ask(script({"say": "Still here."}))
        assert (result.status, result.text) == ("completed", "Still here.")
        check_log(entries(session))
        await session.close()
    gc.collect()
    await before.check()


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.filterwarnings("error")
async def test_a_cancelled_query_leaves_nothing(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(f"query {seed}")
    monkeypatch.setenv("TILLERMAN_HOME", str(tmp_path / "home"))
    project = tmp_path / "project"
    project.mkdir()
    text, given = any_script(draw), {"agent": "mock", "cwd": project, **options(draw)}

    async def queries() -> None:
        async with aclosing(tillerman.query(text, **given)) as log:
            async for _ in log:
                pass

    async def asks() -> None:
        await tillerman.ask(text, **given)

    before = Left()
    await cancelled_after(draw.choice([queries, asks])(), draw.uniform(0, 1.0))
    gc.collect()
    await before.check()
    async with tillerman.open(cwd=project) as harness:
        for row in harness.sessions.catalog.list():
            check_log(list(harness.sessions.log.page(row.id, 0)))


@pytest.mark.parametrize("times", [1, 2, 3])
async def test_a_task_may_be_cancelled_several_times(tmp_path: Path, times: int) -> None:
    before = Left()
    async with harness_in(tmp_path) as harness:
        session = await harness.start("mock", approve="auto")
        task = asyncio.create_task(session.ask(script({"say": "x"}, {"hang": True})))
        async for entry in session.entries():
            if isinstance(entry.event, TurnStarted):
                break
        for _ in range(times):
            task.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(20):
            await session.idle()
            assert (await session.ask(script({"say": "y"}))).text == "y"
        check_log(entries(session))
    await before.check()


async def test_cancelling_one_of_two_prompts_leaves_the_other(tmp_path: Path) -> None:
    async with harness_in(tmp_path) as harness:
        session = await harness.start("mock", approve="auto")
        first = asyncio.create_task(session.ask(script({"sleep": 0.5}, {"say": "First."})))
        await asyncio.sleep(0.2)
        second = asyncio.create_task(session.ask(script({"say": "Second."})))
        await asyncio.sleep(0.05)
        second.cancel()
        async with asyncio.timeout(20):
            assert (await first).text == "First."
        assert second.cancelled()
        assert len(of(entries(session), TurnStarted)) == 1


# -- close and use after it ------------------------------------------------------------------------


@pytest.mark.filterwarnings("error")
async def test_closing_twice_or_at_once_is_fine(tmp_path: Path) -> None:
    before = Left()
    async with harness_in(tmp_path) as harness:
        session = await harness.start("mock", approve="auto")
        await session.ask(script({"say": "x"}))
        await asyncio.gather(session.close(), session.close())
        await session.close()
        async with session:
            pass
    await session.close()
    await before.check()


@pytest.mark.parametrize(
    "use",
    [
        lambda session: session.ask("x"),
        lambda session: session.prompt("x"),
        lambda session: anext(session.run("x")),
        lambda session: session.cancel(),
        lambda session: session.configure(mode="plan"),
    ],
    ids=["ask", "prompt", "run", "cancel", "configure"],
)
@pytest.mark.filterwarnings("error")
async def test_use_after_close_is_an_error(
    tmp_path: Path, use: Callable[[tillerman.Session], Awaitable[object]]
) -> None:
    async with harness_in(tmp_path) as harness:
        session = await harness.start("mock", approve="auto")
        await session.ask(script({"say": "x"}))
        await session.close()
        with pytest.raises(tillerman.SessionClosed) as raised:
            await use(session)
        assert raised.value.hint
        assert session.result().text == "x"  # what is stored can still be read
        with pytest.raises(tillerman.SessionClosed):
            session.answer("r1", tillerman.Answer("allow"))
    for call in (harness.start("mock"), harness.resume(session), harness.handoff(session, "x")):
        with pytest.raises(tillerman.UsageError, match="closed"):
            await call
    with pytest.raises(tillerman.UsageError, match="closed"):
        harness.attach(session)


@pytest.mark.filterwarnings("error")
async def test_a_harness_that_is_closed_ends_the_turns_of_its_sessions(tmp_path: Path) -> None:
    before = Left()
    async with harness_in(tmp_path) as harness:
        session = await harness.start("mock", approve="auto")
        await session.prompt(script({"say": "x"}, {"hang": True}))
        asking = asyncio.create_task(session.ask(script({"say": "y"})))
        await asyncio.sleep(0.1)
        with pytest.raises(RuntimeError, match="theirs"):
            async with harness_in(tmp_path / "project") as other:
                await (await other.start("mock", approve="auto")).prompt(script({"hang": True}))
                raise RuntimeError("theirs")
    with suppress(tillerman.TillermanError):
        await asyncio.wait_for(asking, 10)
    await before.check()
