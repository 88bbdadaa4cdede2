"""Callbacks of a program: what each may return, and what happens on failure or timeout."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

import tillerman
from tests.harness.api_desk import (
    QUESTION,
    SAY,
    WRITE,
    answers,
    check_log,
    entries,
    errors,
    harness_in,
    of,
    script,
)
from tillerman import Answer, Result, ToolCall
from tillerman.core.events import (
    AgentReady,
    AgentStarted,
    PermissionRequested,
    QuestionAsked,
    TurnStarted,
)

ALLOWED = script(WRITE, SAY)
DENY_WRITES = '[[rules]]\nname = "no-writes"\ndeny = "no"\ntool = "write"\n'
DENY_TOUCH = '[[rules]]\nname = "no-touch"\ndeny = "no"\ncommand = "touch *"\n'
REQUEST_CALLBACKS = ("on_permission", "before_call")


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[tillerman.Harness]:
    async with harness_in(tmp_path) as harness:
        yield harness


def as_coroutine(function: Callable[..., Any]) -> Callable[..., Any]:
    async def call(*given: Any) -> Any:
        await asyncio.sleep(0)
        return function(*given)

    return call


def of_both_kinds(function: Callable[..., Any]) -> list[Callable[..., Any]]:
    return [function, as_coroutine(function)]


def written(harness: tillerman.Harness) -> bool:
    return (harness.cwd / "a.txt").exists()


async def started(harness: tillerman.Harness, **options: Any) -> tillerman.Session:
    return await harness.start("mock", **{"approve": "ask", **options})


def boom(*given: object) -> Any:
    raise RuntimeError("out of order")


# -- on_permission and before_call -----------------------------------------------------------------


@pytest.mark.parametrize("name", REQUEST_CALLBACKS)
@pytest.mark.parametrize("option", ["allow", "deny"])
@pytest.mark.parametrize("kind", [0, 1], ids=["function", "coroutine function"])
async def test_an_answer_of_a_callback_counts(
    harness: tillerman.Harness, name: str, option: str, kind: int
) -> None:
    seen: list[PermissionRequested] = []

    def answer(request: PermissionRequested) -> Answer:
        seen.append(request)
        return Answer(option)

    session = await started(harness, **{name: of_both_kinds(answer)[kind]})
    await session.ask(ALLOWED)
    by = ("person", "callback") if name == "on_permission" else ("policy", "before_call")
    assert answers(session) == [(option, *by)]
    assert [one.tool for one in seen] == ["Write"]
    assert written(harness) == (option == "allow")
    check_log(entries(session))


@pytest.mark.parametrize("name", REQUEST_CALLBACKS)
async def test_no_answer_of_a_callback_leaves_the_request_to_a_user(
    harness: tillerman.Harness, name: str
) -> None:
    session = await started(harness, **{name: lambda request: None})
    async with asyncio.timeout(10):
        async for entry in session.run(ALLOWED):
            if isinstance(entry.event, PermissionRequested):
                await asyncio.sleep(0.05)  # the callback has returned
                session.answer(entry.event.request_id, Answer("allow"))
    assert answers(session) == [("allow", "person", "api")]
    assert written(harness)


@pytest.mark.parametrize("name", REQUEST_CALLBACKS)
@pytest.mark.parametrize(
    ("callback", "reason"),
    [
        (boom, "out of order"),
        (lambda request: True, "must return an Answer or None, not True"),
        (lambda request: "allow", "must return an Answer or None, not 'allow'"),
        (lambda: Answer("allow"), "positional argument"),
        (lambda request: Answer("maybe"), "maybe"),
        (lambda request: Answer("allow", input={"path": 1, "x": [object()]}), "object"),
        (lambda request: Answer("allow", input="text"), "Expected `object | null`"),
        (lambda request: Answer(None), "Expected `str`"),
    ],
    ids=[
        "raises",
        "bool",
        "string",
        "wrong parameters",
        "unknown option",
        "no JSON",
        "no mapping",
        "no option",
    ],
)
@pytest.mark.parametrize("kind", [0, 1], ids=["function", "coroutine function"])
async def test_a_callback_that_fails_denies_with_the_reason(
    harness: tillerman.Harness, name: str, callback: Callable[..., Any], reason: str, kind: int
) -> None:
    session = await started(harness, **{name: of_both_kinds(callback)[kind]})
    async with asyncio.timeout(10):
        result = await session.ask(ALLOWED)
    assert result.status == "completed"
    assert not written(harness)
    assert [given[0] for given in answers(session)] == ["deny"]
    [text] = errors(session)
    assert name in text or "callback" in text
    assert reason in text
    check_log(entries(session))


@pytest.mark.parametrize("name", REQUEST_CALLBACKS)
async def test_a_callback_slower_than_the_request_timeout_denies(
    harness: tillerman.Harness, name: str
) -> None:
    ended = asyncio.Event()

    async def slow(request: PermissionRequested) -> Answer:
        try:
            await asyncio.sleep(30)
        finally:
            ended.set()
        return Answer("allow")

    session = await started(harness, **{name: slow, "request_timeout": 0.3})
    async with asyncio.timeout(10):
        await session.ask(ALLOWED)
        await ended.wait()
    assert not written(harness)
    assert [given[0] for given in answers(session)] == ["deny"]
    check_log(entries(session))


@pytest.mark.parametrize("name", REQUEST_CALLBACKS)
@pytest.mark.parametrize("how", ["cancelled", "closed"])
async def test_a_callback_is_cancelled_with_the_turn_or_the_session(
    harness: tillerman.Harness, name: str, how: str
) -> None:
    waits, ended = asyncio.Event(), asyncio.Event()

    async def slow(request: PermissionRequested) -> Answer:
        waits.set()
        try:
            await asyncio.sleep(30)
        finally:
            ended.set()
        return Answer("allow")

    session = await started(harness, **{name: slow})
    async with asyncio.timeout(10):
        await session.prompt(ALLOWED)
        await waits.wait()
        await (session.cancel() if how == "cancelled" else session.close())
        await ended.wait()
        if how == "cancelled":
            await session.idle()
            assert (await session.ask(script(SAY))).text == "Done."
            await session.close()
    assert not written(harness)
    check_log(entries(session))


async def test_a_request_answered_elsewhere_cancels_the_callback(
    harness: tillerman.Harness,
) -> None:
    ended = asyncio.Event()

    async def slow(request: PermissionRequested) -> Answer:
        try:
            await asyncio.sleep(30)
        finally:
            ended.set()
        return Answer("deny")

    session = await started(harness, on_permission=slow)
    async with asyncio.timeout(10):
        async for entry in session.run(ALLOWED):
            if isinstance(entry.event, PermissionRequested):
                await harness.attach(session).answer(entry.event.request_id, Answer("allow"))
        await ended.wait()
    assert [given[0] for given in answers(session)] == ["allow"]
    assert written(harness)
    assert errors(session) == []


async def test_an_answer_elsewhere_waits_for_the_check_of_a_call(
    harness: tillerman.Harness,
) -> None:
    go_on = asyncio.Event()

    async def check(request: PermissionRequested) -> Answer:
        await go_on.wait()
        return Answer("deny")

    session = await started(harness, before_call=check)
    async with asyncio.timeout(10):
        async for entry in session.run(ALLOWED):
            if isinstance(entry.event, PermissionRequested):
                with pytest.raises(tillerman.UsageError, match="being checked"):
                    session.answer(entry.event.request_id, Answer("allow"))
                go_on.set()
    assert answers(session) == [("deny", "policy", "before_call")]
    assert not written(harness)


@pytest.mark.parametrize("answer", [Answer("allow"), None], ids=["allows", "has no opinion"])
async def test_a_preset_that_is_tightened_during_a_check_decides(
    harness: tillerman.Harness, answer: Answer | None
) -> None:
    async def check(request: PermissionRequested) -> Answer | None:
        await session.configure(approve="none")
        return answer

    session = await started(harness, approve="auto", before_call=check)
    async with asyncio.timeout(10):
        await session.ask(ALLOWED)
    assert [given[:2] for given in answers(session)] == [("deny", "policy")]
    assert not written(harness)


@pytest.mark.parametrize("name", REQUEST_CALLBACKS)
async def test_a_deny_rule_comes_before_every_callback(tmp_path: Path, name: str) -> None:
    asked: list[PermissionRequested] = []

    def allow(request: PermissionRequested) -> Answer:
        asked.append(request)
        return Answer("allow")

    async with harness_in(tmp_path, DENY_WRITES) as harness:
        session = await started(harness, **{name: allow})
        await session.ask(ALLOWED)
        assert asked == []
        assert [given[:2] for given in answers(session)] == [("deny", "policy")]
        assert not written(harness)


async def test_before_call_is_asked_about_what_a_rule_allows(harness: tillerman.Harness) -> None:
    session = await started(harness, approve="auto", before_call=lambda request: Answer("deny"))
    await session.ask(ALLOWED)
    assert answers(session) == [("deny", "policy", "before_call")]
    assert not written(harness)


@pytest.mark.parametrize("name", REQUEST_CALLBACKS)
async def test_a_callback_can_rewrite_a_command(harness: tillerman.Harness, name: str) -> None:
    def rewrite(request: PermissionRequested) -> Answer:
        return Answer("allow", input={"command": "echo two > b.txt"})

    session = await started(harness, **{name: rewrite})
    await session.ask(script({"run": "echo one > a.txt"}))
    assert not written(harness)
    assert (harness.cwd / "b.txt").read_text() == "two\n"


@pytest.mark.parametrize("name", REQUEST_CALLBACKS)
async def test_a_callback_cannot_rewrite_a_call_to_a_denied_command(
    tmp_path: Path, name: str
) -> None:
    async with harness_in(tmp_path, DENY_TOUCH) as harness:

        def rewrite(request: PermissionRequested) -> Answer:
            return Answer("allow", input={"command": "touch a.txt"})

        session = await started(harness, **{name: rewrite})
        await session.ask(script({"run": "mkdir one"}))
        assert not written(harness)
        assert [given[0] for given in answers(session)] == ["deny"]


# -- on_question -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [0, 1], ids=["function", "coroutine function"])
async def test_a_question_is_answered_by_its_callback(
    harness: tillerman.Harness, kind: int
) -> None:
    def reply(asked: QuestionAsked) -> Answer:
        return Answer("allow", answers={asked.questions[0].text: "red"})

    session = await started(harness, on_question=of_both_kinds(reply)[kind])
    result = await session.ask(script(QUESTION, {"say": "You chose {answer}."}))
    assert result.text == "You chose red."
    assert answers(session) == [("allow", "person", "callback")]


@pytest.mark.parametrize("callback", [boom, lambda asked: {"Which?": "red"}])
async def test_a_question_callback_that_fails_declines_the_question(
    harness: tillerman.Harness, callback: Callable[..., Any]
) -> None:
    session = await started(harness, on_question=callback)
    async with asyncio.timeout(10):
        result = await session.ask(script(QUESTION, SAY))
    assert result.status == "completed"
    assert [given[0] for given in answers(session)] == ["deny"]
    assert errors(session)[0].startswith("on_question failed")


async def test_a_question_is_not_given_to_the_permission_callback(
    harness: tillerman.Harness,
) -> None:
    session = await started(harness, on_permission=boom, request_timeout=0.3)
    async with asyncio.timeout(10):
        await session.ask(script(QUESTION, SAY))
    assert answers(session)[0][1] == "timeout"
    assert errors(session) == []


# -- after_call ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [0, 1], ids=["function", "coroutine function"])
async def test_finished_calls_are_passed_on_in_order(harness: tillerman.Harness, kind: int) -> None:
    calls: list[tuple[str, str]] = []

    def follow(call: ToolCall) -> None:
        calls.append((call.started.tool, call.finished.outcome))

    session = await started(
        harness,
        after_call=of_both_kinds(follow)[kind],
        on_permission=lambda request: Answer("deny" if request.tool == "Bash" else "allow"),
    )
    await session.ask(script(WRITE, {"run": "touch b.txt"}, WRITE))
    assert calls == [("Write", "completed"), ("Bash", "denied"), ("Write", "completed")]


async def test_an_after_call_that_fails_is_reported_and_stops_nothing(
    harness: tillerman.Harness,
) -> None:
    session = await started(harness, approve="auto", after_call=boom)
    result = await session.ask(script({"run": "true"}, SAY))
    await asyncio.sleep(0.05)
    assert result.text == "Done."
    assert errors(session) == ["after_call failed: out of order"]


# -- before_prompt ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [0, 1], ids=["function", "coroutine function"])
@pytest.mark.parametrize("how", ["ask", "run", "prompt"])
async def test_a_prompt_can_be_rewritten(harness: tillerman.Harness, kind: int, how: str) -> None:
    def rewrite(text: str) -> str | None:
        return script({"say": "Rewritten."}) if text == "old" else None

    session = await started(harness, before_prompt=of_both_kinds(rewrite)[kind])
    for text in ("old", script({"say": "Unchanged."})):
        if how == "ask":
            await session.ask(text)
        elif how == "run":
            assert [entry async for entry in session.run(text)]
        else:
            await session.prompt(text)
            await session.idle()
    assert session.result(1).text == "Rewritten."
    assert session.result(2).text == "Unchanged."
    assert of(entries(session), TurnStarted)[0].prompt == script({"say": "Rewritten."})


@pytest.mark.parametrize(("callback", "error"), [(boom, RuntimeError), (lambda text: 1, TypeError)])
@pytest.mark.parametrize("how", ["ask", "run", "prompt"])
async def test_a_prompt_callback_that_fails_raises_and_sends_nothing(
    harness: tillerman.Harness, callback: Callable[..., Any], error: type[Exception], how: str
) -> None:
    session = await started(harness, before_prompt=callback)
    with pytest.raises(error):
        if how == "run":
            async for _ in session.run(script(SAY)):
                pass
        else:
            await getattr(session, how)(script(SAY))
    # the agent may have been started ahead of its first prompt
    assert {type(one.event) for one in entries(session)} <= {AgentStarted, AgentReady}
    await asyncio.wait_for(session.idle(), 5)


# -- after_turn ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [0, 1], ids=["function", "coroutine function"])
async def test_a_turn_can_be_followed_by_another_prompt(
    harness: tillerman.Harness, kind: int
) -> None:
    results: list[Result] = []

    def follow(result: Result) -> str | None:
        results.append(result)
        return script({"say": "Second."}) if len(results) == 1 else None

    session = await started(harness, after_turn=of_both_kinds(follow)[kind])
    result = await session.ask(script({"say": "First."}))
    assert result.text == "First."
    assert [(one.turn, one.text) for one in results] == [(1, "First."), (2, "Second.")]
    assert session.result().text == "Second."


@pytest.mark.parametrize("callback", [boom, lambda result: 1, lambda: None])
async def test_an_after_turn_that_fails_is_reported_and_ends_the_session_idle(
    harness: tillerman.Harness, callback: Callable[..., Any]
) -> None:
    session = await started(harness, after_turn=callback)
    async with asyncio.timeout(10):
        assert (await session.ask(script(SAY))).status == "completed"
    [text] = errors(session)
    assert text.startswith("after_turn failed: ")


async def test_closing_the_session_cancels_a_slow_after_turn(harness: tillerman.Harness) -> None:
    waits, ended = asyncio.Event(), asyncio.Event()

    async def slow(result: Result) -> None:
        waits.set()
        try:
            await asyncio.sleep(30)
        finally:
            ended.set()

    session = await started(harness, after_turn=slow)
    async with asyncio.timeout(10):
        await session.prompt(script(SAY))
        await waits.wait()
        await session.close()
        await ended.wait()
    check_log(entries(session))


async def test_a_callback_may_use_the_session(harness: tillerman.Harness) -> None:
    async def follow(call: ToolCall) -> None:
        await session.cancel()

    session = await started(harness, approve="auto", after_call=follow)
    async with asyncio.timeout(20):
        result = await session.ask(script({"run": "true"}, {"hang": True}))
    assert result.status == "cancelled"
    check_log(entries(session))


@pytest.mark.parametrize(
    "name",
    ["on_permission", "on_question", "before_call", "after_call", "before_prompt", "after_turn"],
)
async def test_a_callback_that_cannot_be_called_is_refused_before_a_session_exists(
    harness: tillerman.Harness, name: str
) -> None:
    with pytest.raises(tillerman.UsageError, match=name):
        await started(harness, **{name: "not a function"})
    assert harness.sessions.catalog.list() == []
