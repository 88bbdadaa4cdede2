"""When an agent fails: it is retried, another takes over, or the turn fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.sessions.relay_desk import (
    Missing,
    Second,
    agent_text,
    entries_of,
    fallback,
    notices,
    of,
    script,
    start,
)
from tests.sessions.session_desk import Desk
from tillerman.agents.mock import INFO
from tillerman.core.errors import AgentNotInstalled
from tillerman.core.events import (
    AgentStarted,
    FileChange,
    FilesChanged,
    Notice,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from tillerman.core.transcript.handoff_summary import account
from tillerman.sessions.fallback.policy import FallbackPolicy
from tillerman.sessions.run_settings import FallbackRules, LaunchPlan

QUOTA = {"fail": "billing", "message": "the quota is used up"}
BUSY = {"fail": "rate_limited", "message": "too many requests", "retry_after": 0.05}
HALF = [
    {"plan": [{"text": "one", "status": "completed"}, {"text": "two"}]},
    {"write": "one.txt", "text": "1\n"},
    {"say": "Now the other."},
]
REST = [{"write": "two.txt", "text": "2\n"}, {"say": "Both are there. {prompt}"}]


async def test_another_agent_gets_the_same_prompt_when_nothing_was_done_yet(desk: Desk) -> None:
    first, second = script(desk, "a", [QUOTA]), script(desk, "b", [{"say": "I got {prompt}"}])
    session = await start(desk, first, fallback(desk, (Second(), second)))
    entries = await entries_of(session, "hello there")
    assert of(entries, TurnEnded) == [TurnEnded(reason="completed")]
    assert notices(entries) == [
        ("fallback", "mock cannot continue (the quota is used up): second takes over")
    ]
    assert [event.agent for event in of(entries, AgentStarted)] == ["mock", "second"]
    assert of(entries, UserMessage) == []
    result = session.result()
    assert (result.agent, result.fallback, result.status) == ("second", True, "completed")


async def test_the_next_agent_finishes_in_mid_task_from_a_handoff_summary(
    desk: Desk, project: Path
) -> None:
    first, second = script(desk, "a", [*HALF, QUOTA]), script(desk, "b", REST)
    session = await start(desk, first, fallback(desk, (Second(), second)))
    entries = await entries_of(session, "write one and two")
    (handed,) = of(entries, UserMessage)
    assert handed.how == "handoff"
    for part in (
        "write one and two",
        "the quota is used up",
        "Write `one.txt`: completed",
        "> added one.txt",
        "> [x] one\n> [ ] two",
        "Now the other.",
        "## What remains\n> two\n",
    ):
        assert part in handed.text
    assert handed.text in agent_text(entries)  # the mock repeats its prompt
    assert of(entries, TurnStarted) == [TurnStarted(origin="prompt", prompt="write one and two")]
    assert of(entries, TurnEnded) == [TurnEnded(reason="completed")]
    assert of(entries, FilesChanged) == [
        FilesChanged(
            files=(
                FileChange("one.txt", "added", added=1, removed=0),
                FileChange("two.txt", "added", added=1, removed=0),
            )
        )
    ]
    assert sorted(path.name for path in project.glob("*.txt")) == ["one.txt", "two.txt"]


async def test_the_session_stays_with_the_agent_that_took_it_over(desk: Desk) -> None:
    first, second = (
        script(desk, "a", [*HALF, QUOTA]),
        script(desk, "b", REST, [{"say": "{before}"}]),
    )
    session = await start(desk, first, fallback(desk, (Second(), second)))
    await entries_of(session, "write one and two")
    row = desk.sessions.catalog.get(session.id)
    assert row.agent == session.agent == "second"
    await session.close()
    again = await desk.sessions.resume(row, Second(), desk.spec(second), desk.run_settings())
    entries = await entries_of(again, "and now?")
    assert of(entries, UserMessage) == []  # it remembers by itself
    assert "write one and two" in agent_text(entries)
    assert desk.sessions.catalog.get(session.id).native_id == row.native_id


async def test_what_both_agents_used_is_added_up(desk: Desk) -> None:
    one = {"usage": {"input_tokens": 10, "output_tokens": 1, "cost_usd": 0.5}}
    two = {"usage": {"input_tokens": 5, "output_tokens": 2, "cost_usd": 0.25}}
    first, second = script(desk, "a", [*HALF, one, QUOTA]), script(desk, "b", [two])
    session = await start(desk, first, fallback(desk, (Second(), second)))
    await entries_of(session)
    result = session.result()
    assert result.usage
    assert (result.usage.input_tokens, result.usage.output_tokens, result.cost_usd) == (15, 3, 0.75)


async def test_a_crash_before_any_output_falls_back_to_the_next_agent(desk: Desk) -> None:
    first, second = script(desk, "a", [{"crash": 3}]), script(desk, "b", [{"say": "Hello."}])
    session = await start(desk, first, fallback(desk, (Second(), second)))
    entries = await entries_of(session)
    assert (agent_text(entries), session.result().fallback) == ("Hello.", True)


async def test_a_crash_after_a_tool_has_run_does_not(desk: Desk) -> None:
    first, second = script(desk, "a", [*HALF, {"crash": 3}]), script(desk, "b", [{"say": "Hi."}])
    session = await start(desk, first, fallback(desk, (Second(), second)))
    entries = await entries_of(session)
    (end,) = of(entries, TurnEnded)
    assert end.failure.kind == "agent_crashed"
    assert notices(entries) == []
    assert session.result().agent == "mock"


async def test_fallback_after_a_tool_call_can_be_enabled(desk: Desk) -> None:
    first, second = script(desk, "a", [*HALF, {"crash": 3}]), script(desk, "b", REST)
    session = await start(
        desk, first, fallback(desk, (Second(), second), rules=FallbackRules(handoff="always"))
    )
    entries = await entries_of(session)
    assert of(entries, TurnEnded) == [TurnEnded(reason="completed")]


async def test_fallback_in_mid_task_can_be_disabled(desk: Desk) -> None:
    first, second = script(desk, "a", [*HALF, QUOTA]), script(desk, "b", REST)
    session = await start(
        desk, first, fallback(desk, (Second(), second), rules=FallbackRules(handoff="never"))
    )
    (end,) = of(await entries_of(session), TurnEnded)
    assert end.failure.kind == "billing"


@pytest.mark.parametrize("kind", ["refused", "context_overflow", "turn_limit", "denied"])
async def test_a_failure_another_agent_would_not_fix_is_final(desk: Desk, kind: str) -> None:
    first, second = script(desk, "a", [{"fail": kind, "message": "no"}]), script(desk, "b", REST)
    session = await start(desk, first, fallback(desk, (Second(), second)))
    (end,) = of(await entries_of(session), TurnEnded)
    assert end.failure.kind == kind


async def test_each_agent_is_tried_once_and_then_the_turn_fails(desk: Desk) -> None:
    first, second = script(desk, "a", [QUOTA]), script(desk, "b", [BUSY])
    session = await start(desk, first, fallback(desk, (Missing(), first), (Second(), second)))
    entries = await entries_of(session)
    (end,) = of(entries, TurnEnded)
    assert end.failure.kind == "rate_limited"
    assert notices(entries) == [
        ("fallback", "mock cannot continue (the quota is used up): missing takes over"),
        (
            "fallback",
            "missing cannot continue (missing is not installed: no `no-such-program-anywhere` on "
            "PATH): second takes over",
        ),
    ]


async def test_an_agent_that_is_not_installed_is_skipped_at_the_start(desk: Desk) -> None:
    second = script(desk, "b", [{"say": "Hello."}])
    session = await desk.sessions.start(
        Missing(),
        desk.spec(second),
        desk.run_settings(),
        fallback=fallback(desk, (Second(), second)),
    )
    entries = await entries_of(session)
    assert agent_text(entries) == "Hello."
    assert session.result().fallback
    assert desk.sessions.catalog.get(session.id).agent == "second"


async def test_without_a_fallback_it_raises_the_error(desk: Desk) -> None:
    session = await desk.sessions.start(Missing(), desk.spec(), desk.run_settings())
    with pytest.raises(AgentNotInstalled):
        await session.prompt("hello")


async def test_a_rate_limit_is_waited_for_and_the_same_agent_continues(desk: Desk) -> None:
    path = script(desk, "a", [*HALF, BUSY], [{"say": "I go on: {prompt}"}])
    session = await start(desk, path, FallbackPolicy(FallbackRules(rate_limit="wait")))
    entries = await entries_of(session)
    assert notices(entries) == [("retry", "mock is rate limited: retrying in 0.05 s")]
    assert agent_text(entries).endswith(
        "I go on: Continue where you stopped: the rate limit is over."
    )
    assert of(entries, TurnEnded) == [TurnEnded(reason="completed")]
    assert not session.result().fallback


async def test_a_rate_limit_longer_than_the_maximum_wait_falls_back(desk: Desk) -> None:
    first, second = script(desk, "a", [BUSY]), script(desk, "b", [{"say": "Hello."}])
    rules = FallbackRules(rate_limit="wait", wait=0.12)
    session = await start(desk, first, fallback(desk, (Second(), second), rules=rules))
    entries = await entries_of(session)
    assert [kind for kind, _ in notices(entries)] == ["retry", "retry", "fallback"]
    assert agent_text(entries) == "Hello."


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_a_waiting_turn_can_be_cancelled(desk: Desk) -> None:
    path = script(desk, "a", [BUSY | {"retry_after": 500}])
    session = await start(desk, path, FallbackPolicy(FallbackRules(rate_limit="wait")))
    await session.prompt("hello")
    log = desk.sessions.log
    await until(lambda: bool(of(log.since(session.id), Notice)))
    await session.cancel()
    await session.idle()
    assert of(log.since(session.id), TurnEnded) == [TurnEnded(reason="cancelled")]


async def test_a_session_can_be_closed_while_it_waits(desk: Desk) -> None:
    path = script(desk, "a", [BUSY | {"retry_after": 500}])
    session = await start(desk, path, FallbackPolicy(FallbackRules(rate_limit="wait")))
    await session.prompt("hello")
    await until(lambda: bool(of(desk.sessions.log.since(session.id), Notice)))
    async with asyncio.timeout(10):
        await session.close()


async def test_an_agent_that_cannot_resume_is_sent_the_earlier_conversation(desk: Desk) -> None:
    plain = Second("plain", can=INFO.can - {"resume"})
    path = script(desk, "a", [{"write": "a.txt", "text": "1"}, {"say": "It is written."}])
    session = await desk.sessions.start(plain, desk.spec(path), desk.run_settings())
    await entries_of(session, "write a file")
    row = desk.sessions.catalog.get(session.id)
    await session.close()
    path = script(desk, "b", [{"say": "{prompt}"}])
    again = await desk.sessions.resume(row, plain, desk.spec(path), desk.run_settings())
    entries = await entries_of(again, "what did you write?")
    (reported,) = of(entries, UserMessage)
    assert "User:\n> write a file\nplain:\n> It is written." in reported.text
    assert "Write `a.txt`: completed" in reported.text
    assert agent_text(entries) == f"{reported.text}\nwhat did you write?"
    assert of(entries, TurnStarted)[0].prompt == "what did you write?"
    once_more = await entries_of(again, "thanks")
    assert of(once_more, UserMessage) == []


async def test_the_handoff_summary_in_the_log_is_the_one_sent(desk: Desk) -> None:
    first, second = script(desk, "a", [*HALF, QUOTA]), script(desk, "b", REST)
    session = await start(desk, first, fallback(desk, (Second(), second)))
    entries = await entries_of(session, "write one and two")
    place = next(i for i, e in enumerate(entries) if isinstance(e.event, UserMessage))
    files = (FileChange("one.txt", "added", added=1, removed=0),)
    reported = account(entries[:place]).unfinished("the quota is used up", files)
    assert entries[place].event == UserMessage(text=reported, how="handoff")


async def test_the_third_agent_is_sent_the_work_of_the_first_one(desk: Desk, project: Path) -> None:
    first, second = script(desk, "a", [*HALF, QUOTA]), script(desk, "b", [{"crash": 3}])
    third = script(desk, "c", REST)
    team = fallback(desk, (Second(), second), (Second("third"), third))
    session = await start(desk, first, team)
    entries = await entries_of(session, "write one and two")
    assert of(entries, TurnEnded) == [TurnEnded(reason="completed")]
    assert session.agent == "third"
    reported = [event.text for event in of(entries, UserMessage)]
    assert len(reported) == 2
    assert all("Write `one.txt`: completed" in text for text in reported)
    assert sorted(path.name for path in project.glob("*.txt")) == ["one.txt", "two.txt"]


async def test_after_a_second_wait_the_agent_is_still_prompted_to_continue(desk: Desk) -> None:
    path = script(desk, "a", [*HALF, BUSY], [BUSY], [{"say": "{prompt}"}])
    session = await start(desk, path, FallbackPolicy(FallbackRules(rate_limit="wait")))
    entries = await entries_of(session)
    assert agent_text(entries).endswith("Continue where you stopped: the rate limit is over.")


async def test_prompts_for_a_waiting_turn_are_queued(desk: Desk) -> None:
    path = script(desk, "a", [BUSY | {"retry_after": 1}], [{"say": "One."}], [{"say": "Two."}])
    session = await start(desk, path, FallbackPolicy(FallbackRules(rate_limit="wait")))
    await session.prompt("hello")
    log = desk.sessions.log
    await until(lambda: bool(of(log.since(session.id), Notice)))
    await session.prompt("quick", when_busy="steer")
    async with asyncio.timeout(20):
        await session.idle()
    entries = log.since(session.id)
    assert of(entries, UserMessage) == [UserMessage(text="quick", how="queued")]
    assert agent_text(entries) == "One.Two."


async def test_a_session_can_be_closed_during_a_handover(desk: Desk) -> None:
    """The first agent does not end by itself."""
    first, second = script(desk, "a", [{"deaf": True}, QUOTA]), script(desk, "b", REST)
    session = await start(desk, first, fallback(desk, (Second(), second)))
    await session.prompt("hello")
    await until(lambda: bool(of(desk.sessions.log.since(session.id), Notice)))
    async with asyncio.timeout(20):
        await session.close()


async def test_an_error_with_the_next_agent_ends_the_turn(desk: Desk) -> None:
    async def call(name: str) -> LaunchPlan:
        raise RuntimeError("no such thing")

    path = script(desk, "a", [QUOTA])
    session = await start(desk, path, FallbackPolicy(FallbackRules(), ["second"], call))
    entries = await entries_of(session)
    (end,) = of(entries, TurnEnded)
    assert end.failure.kind == "billing"
    assert notices(entries) == [("fallback", "RuntimeError: no such thing")]
