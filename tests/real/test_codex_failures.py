"""How turns of the real Codex fail, and what is logged."""

from __future__ import annotations

import pytest

from tests.real.desk import Desk, agent_text, ends, of, run
from tillerman.core.events import Notice
from tillerman.core.failure import Failure
from tillerman.testing.model_double.script import Fail, Say, attempts, reply

pytestmark = [pytest.mark.real, pytest.mark.agents("codex"), pytest.mark.timeout(90)]


@pytest.mark.parametrize(
    ("fail", "kind", "status"),
    [
        (Fail(401, message="Incorrect API key"), "not_signed_in", 401),
        (Fail(429, message="slow down"), "rate_limited", 429),
        (Fail(429, "quota", message="You exceeded your current quota"), "billing", None),
        (Fail(500, message="it broke"), "api_error", None),
        (Fail(404, "model_not_found", message="no such model"), "model_not_found", None),
        (Fail(400, "overflow", message="too long"), "context_overflow", None),
        (Fail(400, message="bad request"), "agent_failed", None),
    ],
    ids=["401", "429", "quota", "500", "unknown model", "overflow", "400"],
)
async def test_a_failure_of_the_api_has_its_kind_and_retries_are_bounded(
    any_desk: Desk, fail: Fail, kind: str, status: int | None
) -> None:
    desk = any_desk
    desk.double.scenarios["fail"] = [fail]
    session = await desk.start()

    log = await run(session, "@@fail@@ go")

    [end] = ends(log)
    assert (end.reason, end.failure and end.failure.kind) == ("failed", kind), end
    assert end.failure is not None
    assert end.failure.status == status
    assert len([one for one in of(log, Notice) if one.kind == "retry"]) <= 5


async def test_a_server_that_recovers_is_reported_in_a_notice(any_desk: Desk) -> None:
    desk = any_desk
    broken = Fail(500, message="it broke")
    desk.double.scenarios["flaky"] = [attempts(broken, broken, reply(Say("Recovered.")))]
    session = await desk.start()

    log = await run(session, "@@flaky@@ go")

    assert agent_text(log) == "Recovered."
    assert [one.kind for one in of(log, Notice)] == ["retry"]


async def test_an_unresponsive_server_fails_the_turn_instead_of_waiting_for_ever(
    any_desk: Desk,
) -> None:
    desk = any_desk
    desk.player.prepare("http://127.0.0.1:9")
    session = await desk.start()

    log = await run(session, "hello")

    [end] = ends(log)
    assert end.reason == "failed"
    assert end.failure is not None
    assert end.failure.kind == "api_error"


async def test_without_a_key_the_missing_variable_is_named(any_desk: Desk) -> None:
    desk = any_desk
    session = await desk.start(environment={desk.player.key: ""})

    log = await run(session, "hello")

    [end] = ends(log)
    assert end.failure == Failure(
        kind="not_signed_in",
        message="Missing environment variable: `OPENAI_API_KEY`.",
        hint="run `codex login`, or set the key that its provider reads",
    )
