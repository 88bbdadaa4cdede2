"""Tools that are Python functions, called by an agent: arguments, errors, several servers."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from msgspec import Struct

import tillerman
from tests.harness.api_desk import Left, check_log, entries, harness_in, of, script
from tillerman.core.events import PermissionRequested, Text, ToolFinished
from tillerman.core.program.python_tools import tool_server


class Point(Struct):
    x: int
    y: int = 0


def add(a: int, b: int = 1) -> int:
    """Adds two numbers."""
    return a + b


async def shift(point: Point, by: list[int]) -> Point:
    await asyncio.sleep(0)
    return Point(point.x + by[0], point.y + by[1])


def fail(kind: Literal["value", "exit", "user"]) -> str:
    if kind == "exit":
        raise SystemExit(3)
    raise tillerman.UsageError("not like this") if kind == "user" else ValueError("a bad value")


def big(size: int) -> str:
    return "x" * size


def odd() -> object:
    return object()


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[tillerman.Harness]:
    async with harness_in(tmp_path) as harness:
        yield harness


def call(tool: str, **input: Any) -> dict[str, Any]:
    return {"call": tool, "input": input}


def thread_name() -> str:
    return threading.current_thread().name


async def coroutine_thread_name() -> str:
    return threading.current_thread().name


async def results(
    harness: tillerman.Harness, *steps: dict[str, Any], **options: Any
) -> list[tuple[str, str]]:
    """Outcome and text of each call."""
    async with await harness.start("mock", **{"approve": "auto", **options}) as session:
        async with asyncio.timeout(30):
            await session.ask(script(*steps))
    check_log(entries(session))
    return [
        (one.outcome, "".join(part.text for part in one.content if isinstance(part, Text)))
        for one in of(entries(session), ToolFinished)
    ]


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (call("py.add", a=2, b=3), "5"),
        (call("py.add", a=2), "3"),
        (call("py.shift", point={"x": 1}, by=[2, 3]), '{"x":3,"y":3}'),
    ],
)
async def test_a_function_is_called_with_typed_arguments(
    harness: tillerman.Harness, step: dict[str, Any], expected: str
) -> None:
    servers = {"py": tool_server(add, shift)}
    assert await results(harness, step, servers=servers) == [("completed", expected)]


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (call("py.add"), "missing required field `a`"),
        (call("py.add", a="2"), "Expected `int`, got `str`"),
        (call("py.add", a=1, c=2), "unknown field `c`"),
        (call("py.add", a=2**70), ""),
        (call("py.fail", kind="other"), "Invalid enum value"),
        (call("py.fail", kind="value"), "fail failed: ValueError: a bad value"),
        (call("py.fail", kind="user"), "not like this"),
        (call("py.fail", kind="exit"), "fail failed: SystemExit: 3"),
        (call("py.odd"), "odd failed"),
        (call("py.gone"), "gone"),
    ],
)
async def test_a_bad_call_fails_with_its_reason_and_the_next_one_works(
    harness: tillerman.Harness, step: dict[str, Any], reason: str
) -> None:
    servers = {"py": tool_server(add, fail, odd)}
    (outcome, text), good = await results(harness, step, call("py.add", a=1), servers=servers)
    if "2**70" not in str(step) and reason:
        assert outcome == "failed"
        assert reason in text
    assert good == ("completed", "2")


async def test_only_a_coroutine_function_runs_in_the_thread_of_the_loop(
    harness: tillerman.Harness,
) -> None:
    servers = {"py": tool_server(thread_name, coroutine_thread_name)}
    steps = (call("py.thread_name"), call("py.coroutine_thread_name"))
    (_, function), (_, coroutine) = await results(harness, *steps, servers=servers)
    here = threading.current_thread().name
    assert coroutine == here != function


async def test_two_servers_may_have_tools_of_the_same_name(harness: tillerman.Harness) -> None:
    def add(a: str) -> str:
        return f"added {a}"

    servers = {"one": tool_server(globals()["add"]), "two": tool_server(add)}
    steps = (call("one.add", a=1), call("two.add", a="x"))
    reported = await results(harness, *steps, servers=servers)
    assert reported == [("completed", "2"), ("completed", "added x")]


async def test_calls_of_several_sessions_run_at_once(harness: tillerman.Harness) -> None:
    """A plain function that blocks does not block the loop, nor the other calls."""
    meet = threading.Barrier(3)

    def wait() -> str:
        meet.wait(timeout=20)
        return "met"

    servers = {"py": tool_server(wait)}
    reported = await asyncio.gather(
        *(results(harness, call("py.wait"), servers=servers) for _ in range(3))
    )
    assert reported == [[("completed", "met")]] * 3


@pytest.mark.parametrize("size", [1, 70_000, 3_000_000])
async def test_a_result_of_any_size_arrives(harness: tillerman.Harness, size: int) -> None:
    servers = {"py": tool_server(big)}
    async with await harness.start("mock", approve="auto", servers=servers) as session:
        async with asyncio.timeout(60):
            await session.ask(script(call("py.big", size=size)))
    [finished] = of(entries(session), ToolFinished)
    [text] = [part for part in finished.content if isinstance(part, Text)]
    assert finished.outcome == "completed"
    assert len(text.text) == size if size < 50_000 else text.text.startswith("xxx")
    check_log(entries(session))


async def test_a_call_is_asked_about_like_any_other(harness: tillerman.Harness) -> None:
    called: list[int] = []

    def note(a: int) -> None:
        called.append(a)

    asked: list[PermissionRequested] = []

    def decide(request: PermissionRequested) -> tillerman.Answer:
        asked.append(request)
        return tillerman.Answer("deny" if request.input == {"a": 1} else "allow")

    servers = {"py": tool_server(note)}
    steps = (call("py.note", a=1), call("py.note", a=2))
    reported = await results(harness, *steps, servers=servers, approve="ask", on_permission=decide)
    assert [outcome for outcome, _ in reported] == ["denied", "completed"]
    assert called == [2]
    assert [request.tool for request in asked] == ["MCP", "MCP"]


async def test_the_tools_are_offered_to_the_agent_that_takes_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = '[agents.absent]\nacp = "no-such-program-anywhere"\n'
    async with harness_in(tmp_path, config) as harness:
        servers = {"py": tool_server(add)}
        async with await harness.start("absent,mock", approve="auto", servers=servers) as session:
            result = await session.ask(script(call("py.add", a=4)))
        assert result.agent == "mock"
        assert [one.outcome for one in of(entries(session), ToolFinished)] == ["completed"]


async def test_the_tools_are_offered_after_a_handoff_within_a_turn(tmp_path: Path) -> None:
    """The quota of the first agent is used up in its turn; the next one calls the tool."""
    from msgspec.structs import replace

    from tillerman.agents import load
    from tillerman.agents.mock import MockAgent

    mock = load("mock")
    assert isinstance(mock, MockAgent)
    tillerman.register_agent(MockAgent(replace(mock.info, name="mock-two"), mock.wire))
    try:
        async with harness_in(tmp_path) as harness:
            called: list[int] = []

            def note(a: int) -> str:
                called.append(a)
                return "noted"

            steps = (call("py.note", a=len(called)), {"fail": "billing", "message": "no quota"})
            async with await harness.start(
                "mock,mock-two", approve="auto", servers={"py": tool_server(note)}
            ) as session:
                async with asyncio.timeout(30):
                    await session.ask(script(*steps))
                    assert session.agent == "mock-two"
                    await session.ask(script(call("py.note", a=7)))
            assert called[-1] == 7
            check_log(entries(session))
    finally:
        from tillerman import agents

        del agents._registered["mock-two"]


async def test_the_tools_work_beside_the_workspace_tools(harness: tillerman.Harness) -> None:
    (harness.cwd / "seen.txt").write_text("what is in it\n")
    reported = await results(
        harness,
        call("py.add", a=1),
        call("tillerman.read_file", path="seen.txt"),
        servers={"py": tool_server(add)},
        workspace_tools=True,
    )
    assert reported[0] == ("completed", "2")
    assert reported[1][0] == "completed"
    assert "what is in it" in reported[1][1]


async def test_a_name_of_a_server_that_the_workspace_tools_use_is_refused(
    harness: tillerman.Harness,
) -> None:
    with pytest.raises(tillerman.UsageError, match="tillerman"):
        await harness.start("mock", servers={"tillerman": tool_server(add)}, workspace_tools=True)


async def test_tools_are_served_again_after_a_resume(harness: tillerman.Harness) -> None:
    servers = {"py": tool_server(add)}
    session = await harness.start("mock", approve="auto", servers=servers)
    await session.ask(script(call("py.add", a=1)))
    await session.close()
    async with await harness.resume(session, servers=servers, approve="auto") as resumed:
        await resumed.ask(script(call("py.add", a=1)))
    assert [one.outcome for one in of(entries(resumed), ToolFinished)] == ["completed"] * 2


async def test_cancelling_a_turn_ends_a_slow_coroutine_tool(harness: tillerman.Harness) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def slow() -> str:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()
        return ""

    before = Left()
    session = await harness.start("mock", approve="auto", servers={"py": tool_server(slow)})
    async with asyncio.timeout(30):
        asking = asyncio.create_task(session.ask(script(call("py.slow"))))
        await begun.wait()
        asking.cancel()
        await asyncio.wait([asking])
        await session.close()
        await ended.wait()
    await before.check()
    check_log(entries(session))


def _positional(a: int, /) -> None: ...
def _many(*a: int) -> None: ...
def _untyped(a) -> None: ...  # type: ignore[no-untyped-def]
def _any_object(a: threading.Thread) -> None: ...
def _unknown(a: Missing) -> None: ...  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    "function", [_positional, _many, _untyped, _any_object, _unknown, lambda: 1, "add", sys]
)
def test_a_function_that_cannot_be_a_tool_is_refused(function: Callable[..., Any]) -> None:
    with pytest.raises(tillerman.UsageError):
        tool_server(function)


def test_two_functions_of_one_name_are_refused() -> None:
    with pytest.raises(tillerman.UsageError, match="two tools"):
        tool_server(add, add)


def test_a_schema_describes_defaults_and_nested_types() -> None:
    def find(where: Point, words: list[str], most: int = 3) -> None:
        """Finds words."""

    [tool] = tool_server(find).tools
    assert tool.description == "Finds words."
    schema = tool.schema
    assert schema["required"] == ["where", "words"]
    assert schema["properties"]["most"] == {"type": "integer", "default": 3}
    assert schema["properties"]["where"]["$ref"] == "#/$defs/Point"
    assert set(schema["$defs"]) == {"Point"}


def test_a_mutable_default_is_new_for_each_call() -> None:
    def collect(into: list[int] = []) -> list[int]:  # noqa: B006
        into.append(1)
        return into

    [tool] = tool_server(collect).tools
    assert [tool.call({}), tool.call({})] == [[1], [1]]
