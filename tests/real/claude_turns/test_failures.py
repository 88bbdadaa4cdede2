"""Errors behind the real Claude Code, as typed failures with a next step."""

from __future__ import annotations

import pytest

from tests.real.desk import agent_text, ends, of, run
from tests.real.standing import StandingDesk
from tillerman.core.events import MessageChunk, MessageWithdrawn, Notice, TurnEnded
from tillerman.core.failure import Failure
from tillerman.testing.model_double.script import (
    Attempts,
    ConnectionCut,
    Fail,
    ModelMessage,
    Say,
    attempts,
    overflow,
    reply,
)

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(60),
    pytest.mark.asyncio(loop_scope="module"),
]


CUT = reply(Say("The sent", chunks=1), ConnectionCut())


async def failure_of(
    desk: StandingDesk, step: Fail | ModelMessage | Attempts, **settings: object
) -> Failure:
    """The failure of a turn; asserts that the session is usable afterwards."""
    desk.double.scenarios |= {"broken": [step], "next": [reply(Say("Still here."))]}
    session = await desk.start(**settings)
    log = await run(session, "@@broken@@")
    [end] = ends(log)
    assert (end.reason, end.result) == ("failed", None)
    assert end.failure is not None
    assert end.failure.message
    assert agent_text(await run(session, "@@next@@")) == "Still here."
    return end.failure


@pytest.mark.parametrize(
    ("fail", "kind"),
    [
        (Fail(400, message="scripted refusal"), "api_error"),
        (Fail(401), "not_signed_in"),
        (Fail(402, message="Your credit balance is too low."), "billing"),
        (Fail(403), "not_signed_in"),
        (Fail(404, message="model: nonesuch"), "model_not_found"),
        (Fail(429), "rate_limited"),
        (Fail(500), "api_error"),
        (Fail(529), "api_error"),
    ],
    ids=lambda value: str(value.status) if isinstance(value, Fail) else value,
)
async def test_an_error_of_the_api_is_a_typed_failure(
    desk: StandingDesk, fail: Fail, kind: str
) -> None:
    failure = await failure_of(desk, fail)

    assert (failure.kind, failure.status) == (kind, fail.status)
    assert bool(failure.hint) == (fail.status != 400)


async def test_a_model_that_does_not_exist_is_named_in_the_failure(desk: StandingDesk) -> None:
    missing = Fail(404, "not_found_error", "model: claude-nonesuch-1")

    failure = await failure_of(desk, missing, model="claude-nonesuch-1")

    assert desk.double.turns[0].body["model"] == "claude-nonesuch-1"
    assert (failure.kind, failure.status) == ("model_not_found", 404)
    assert "claude-nonesuch-1" in failure.message
    assert "tillerman models" in failure.hint


async def test_a_limit_reports_how_long_to_wait_and_that_it_was_retried(
    desk: StandingDesk,
) -> None:
    desk.double.scenarios["limit"] = [Fail(429, retry_after=1)]
    session = await desk.start()

    log = await run(session, "@@limit@@")

    [end] = ends(log)
    assert end.failure is not None
    assert (end.failure.kind, end.failure.retry_after) == ("rate_limited", 1.0)
    [retry] = [event for event in of(log, Notice) if event.kind == "retry"]
    assert retry.level == "warning"
    assert "429" in retry.text and "in 1.0 s" in retry.text
    assert [turn.attempt for turn in desk.double.turns] == [0, 1]


async def test_a_retry_that_works_is_a_notice_and_a_completed_turn(desk: StandingDesk) -> None:
    desk.double.scenarios["retry"] = [attempts(Fail(529), reply(Say("Better now.")))]
    session = await desk.start()

    log = await run(session, "@@retry@@")

    assert ends(log) == [TurnEnded(reason="completed")]
    assert [event.kind for event in of(log, Notice)] == ["retry"]
    assert agent_text(log) == "Better now."


async def test_a_conversation_too_long_is_an_overflow(desk: StandingDesk) -> None:
    failure = await failure_of(desk, overflow())

    assert failure.kind == "context_overflow"
    assert "/compact" in failure.hint


async def test_a_refusal_and_an_answer_too_long_are_distinguished(desk: StandingDesk) -> None:
    desk.double.scenarios |= {
        "refuse": lambda request: reply(Say("I can"), stop="refusal"),
        "long": lambda request: reply(Say("And then"), stop="max_tokens"),
    }
    session = await desk.start()

    log = await run(session, "@@refuse@@") + await run(session, "@@long@@")

    assert [end.failure and end.failure.kind for end in ends(log)] == ["refused", "output_limit"]


async def test_a_stream_cut_once_is_withdrawn_and_sent_again(desk: StandingDesk) -> None:
    desk.double.scenarios["cut"] = [attempts(CUT, reply(Say("The sentence is whole.")))]
    session = await desk.start()

    log = await run(session, "@@cut@@")

    assert ends(log) == [TurnEnded(reason="completed")]
    assert agent_text(log) == session.result().text == "The sentence is whole."
    [gone] = {event.message_id for event in of(log, MessageWithdrawn)}
    assert "".join(c.text for c in of(log, MessageChunk) if c.message_id == gone) == "The sent"


async def test_a_stream_that_is_always_cut_is_a_failure_and_not_an_answer(
    desk: StandingDesk,
) -> None:
    failure = await failure_of(desk, CUT)

    assert failure.kind == "stream_broken"


async def test_an_error_in_mid_stream_is_a_failure(desk: StandingDesk) -> None:
    half = reply(Say("Half"), Fail(529, message="Overloaded"))

    failure = await failure_of(desk, half)

    assert failure.kind == "api_error"
    assert "529" in failure.message


async def test_an_unreachable_server_is_a_failure(desk: StandingDesk) -> None:
    nowhere = {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}
    session = await desk.start(environment=nowhere)

    log = await run(session, "hello?")

    [end] = ends(log)
    assert end.failure is not None
    assert (end.failure.kind, end.failure.status) == ("api_error", None)


async def test_no_key_at_all_is_not_signed_in(desk: StandingDesk) -> None:
    session = await desk.start(environment={"ANTHROPIC_API_KEY": ""})

    log = await run(session, "hello?")

    [end] = ends(log)
    assert end.failure is not None
    assert end.failure.kind == "not_signed_in"
    assert "claude auth login" in end.failure.hint


async def test_a_conversation_that_the_agent_no_longer_has_cannot_be_resumed(
    desk: StandingDesk,
) -> None:
    session = await desk.start(resume="11111111-2222-4333-8444-555555555555")

    log = await run(session, "go on")

    [end] = ends(log)
    assert end.reason == "failed"
    assert end.failure is not None
    assert "No conversation found" in end.failure.message
    assert "start a new session" in end.failure.hint
