"""An agent that retries by itself is stopped if no retry helps, or another can continue."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.sessions.relay_desk import Second, entries_of, fallback, notices, of, script, start
from tests.sessions.session_desk import Desk
from tillerman.core.events import AgentStarted, Notice, TurnEnded
from tillerman.core.failure import NO_RETRY_HELPS, Failure, FailureKind
from tillerman.sessions.fallback.policy import FallbackPolicy
from tillerman.sessions.run_settings import FallbackRules

HANGS = {"hang": True}


def retry(kind: FailureKind, **more: Any) -> dict[str, Any]:
    failure = {"kind": kind, "message": f"failed with {kind}", "hint": "sign in", **more}
    return {"notice": "trying again", "kind": "retry", "level": "warning", "failure": failure}


def failed(kind: FailureKind, **more: Any) -> TurnEnded:
    why = Failure(kind=kind, message=f"failed with {kind}", hint="sign in", **more)
    return TurnEnded(reason="failed", failure=why)


@pytest.mark.parametrize("kind", sorted(NO_RETRY_HELPS))
async def test_a_failure_that_no_retry_fixes_ends_the_turn_while_the_agent_still_tries(
    desk: Desk, kind: FailureKind
) -> None:
    session = await start(
        desk, script(desk, "a", [retry(kind), retry(kind), HANGS]), FallbackPolicy()
    )
    entries = await entries_of(session)
    assert of(entries, TurnEnded) == [failed(kind)]


async def test_a_key_is_refused_only_if_the_renewed_one_is_refused_too(desk: Desk) -> None:
    steps = [retry("not_signed_in"), {"say": "The token was renewed."}]
    session = await start(desk, script(desk, "a", steps), FallbackPolicy())
    assert of(await entries_of(session), TurnEnded) == [TurnEnded(reason="completed")]


async def test_the_agent_can_be_prompted_again_after_it_was_stopped(desk: Desk) -> None:
    path = script(desk, "a", [retry("billing"), HANGS], [{"say": "Paid."}])
    session = await start(desk, path, FallbackPolicy())
    await entries_of(session)
    assert of(await entries_of(session), TurnEnded) == [TurnEnded(reason="completed")]


async def test_a_rate_limit_takes_the_fallback_when_it_is_first_reported(
    desk: Desk,
) -> None:
    first = script(desk, "a", [retry("rate_limited", retry_after=600), HANGS])
    second = script(desk, "b", [{"say": "Done."}])
    session = await start(desk, first, fallback(desk, (Second(), second)))
    async with asyncio.timeout(20):
        entries = await entries_of(session)
    assert of(entries, TurnEnded) == [TurnEnded(reason="completed")]
    assert [event.agent for event in of(entries, AgentStarted)] == ["mock", "second"]
    assert notices(entries) == [
        ("retry", "trying again"),
        ("fallback", "mock cannot continue (failed with rate_limited): second takes over"),
    ]


@pytest.mark.parametrize(
    "rules",
    [FallbackRules(rate_limit="wait"), FallbackRules(rate_limit="switch")],
    ids=lambda one: one.rate_limit,
)
async def test_a_rate_limit_is_waited_for_by_rule_or_if_no_agent_remains(
    desk: Desk, rules: FallbackRules
) -> None:
    steps = [retry("rate_limited", retry_after=2), {"say": "It is over."}]
    others = [(Second(), script(desk, "b", []))] if rules.rate_limit == "wait" else []
    session = await start(desk, script(desk, "a", steps), fallback(desk, *others, rules=rules))
    entries = await entries_of(session)
    assert of(entries, TurnEnded) == [TurnEnded(reason="completed")]
    assert [event.agent for event in of(entries, AgentStarted)] == ["mock"]


@pytest.mark.parametrize("rate_limit", ["wait", "switch"])
async def test_a_rate_limit_that_lasts_longer_than_the_user_waits_ends_the_turn(
    desk: Desk, rate_limit: Any
) -> None:
    rules = FallbackRules(rate_limit=rate_limit, wait=60)
    steps = [retry("rate_limited", retry_after=61), HANGS]
    session = await start(desk, script(desk, "a", steps), FallbackPolicy(rules))
    entries = await entries_of(session)
    assert of(entries, TurnEnded) == [failed("rate_limited", retry_after=61)]


async def test_a_failure_of_the_api_is_left_to_the_agents_own_retries(desk: Desk) -> None:
    steps = [retry("api_error"), retry("api_error"), {"say": "At last."}]
    session = await start(
        desk, script(desk, "a", steps), fallback(desk, (Second(), script(desk, "b", [])))
    )
    entries = await entries_of(session)
    assert of(entries, TurnEnded) == [TurnEnded(reason="completed")]
    assert [one.text for one in of(entries, Notice)] == ["trying again"] * 2


async def test_a_person_who_cancels_during_a_retry_has_cancelled(desk: Desk) -> None:
    path = script(desk, "a", [retry("not_signed_in"), HANGS])
    session = await start(desk, path, FallbackPolicy())
    await session.prompt("do it")
    async for entry in session.entries():
        if isinstance(entry.event, Notice):
            break
    await session.cancel()
    await session.idle()
    assert session.result().status == "cancelled"
