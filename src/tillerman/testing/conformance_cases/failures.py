"""Conformance cases: API errors and broken streams, reported with the right failure kind."""

from __future__ import annotations

from tillerman.core.events import Notice, ToolStarted
from tillerman.core.failure import Failure
from tillerman.testing.conformance_cases.case import case
from tillerman.testing.model_double.script import (
    Attempts,
    Close,
    ConnectionCut,
    Fail,
    Say,
    Stall,
    overflow,
    quota,
    reply,
)
from tillerman.testing.scenario import (
    Act,
    Scenario,
    UnsupportedAction,
    agent_text,
    do,
    end,
    of,
    play,
    until,
)


async def _failure(scene: Scenario, fail: Fail) -> Failure:
    log = await play(await scene.start(), scene.script(fail))
    ended = end(log)
    assert ended.reason == "failed", ended
    assert ended.failure, ended
    assert ended.failure.hint, f"no hint: {ended.failure}"
    return ended.failure


@case("a rejected key is reported as not signed in")
async def error_401(scene: Scenario) -> None:
    failure = await _failure(scene, Fail(401, message="That will not do"))
    assert failure.kind == "not_signed_in", failure


@case("HTTP 429 is reported as a rate limit")
async def error_429(scene: Scenario) -> None:
    failure = await _failure(scene, Fail(429, message="Rate limit reached", retry_after=1))
    assert failure.kind == "rate_limited", failure


@case("an exceeded quota is reported")
async def error_quota(scene: Scenario) -> None:
    failure = await _failure(scene, quota("You exceeded your quota: see your billing details"))
    assert failure.kind in ("billing", "rate_limited"), failure


@case("an API error is reported")
async def error_500(scene: Scenario) -> None:
    failure = await _failure(scene, Fail(500, message="Internal server error"))
    assert failure.kind == "api_error", failure


@case("an unknown model is reported")
async def error_404(scene: Scenario) -> None:
    failure = await _failure(scene, Fail(404, message="The model no-such-model does not exist"))
    assert failure.kind == "model_not_found", failure


@case("a context overflow is reported")
async def error_overflow(scene: Scenario) -> None:
    failure = await _failure(scene, overflow())
    assert failure.kind == "context_overflow", failure


@case("a truncated answer is not reported as complete")
async def cut_stream(scene: Scenario) -> None:
    half: list[Act] = [Say("Half of it", chunks=2), Stall(0.2), ConnectionCut()]
    log = await play(await scene.start(), scene.script(*[half] * 6))  # some agents continue it
    failure = end(log).failure
    assert failure, (end(log), agent_text(log))
    assert failure.kind in ("stream_broken", "api_error", "agent_crashed"), failure
    assert failure.hint, failure


async def _stopped(scene: Scenario, stop: str) -> Failure:
    """Some agents ask their model to continue, and fail if that answer is stopped as well."""
    stopped = Attempts((reply(Say("As far as it goes. "), stop=stop),))
    log = await play(await scene.start(), scene.script(*[stopped] * 6))
    failure = end(log).failure
    assert failure, (end(log), agent_text(log))
    assert "As far as it goes. " in agent_text(log), agent_text(log)
    assert failure.hint, failure
    return failure


@case("an answer that reaches the model's output limit is not reported as complete")
async def output_limit(scene: Scenario) -> None:
    failure = await _stopped(scene, "max_tokens")
    assert failure.kind == "output_limit", failure


@case("an answer that the model's provider stops is not reported as complete")
async def refusal(scene: Scenario) -> None:
    failure = await _stopped(scene, "refusal")
    assert failure.kind == "refused", failure


@case("reports retries of model calls as they happen", "retries")
async def retry_reported(scene: Scenario) -> None:
    session = await scene.start()
    await session.prompt(scene.script(Fail(500, message="Internal server error")))
    await until(session, Notice, lambda notice: notice.kind == "retry")
    await session.cancel()
    await session.idle()


@case("an answer without an end marker is not reported as complete, and is kept")
async def closed_stream(scene: Scenario) -> None:
    half: list[Act] = [Say("Half of it", chunks=2), Stall(0.2), Close()]
    log = await play(await scene.start(), scene.script(half, half))
    ended = end(log)
    assert ended.failure, (ended, agent_text(log))
    assert ended.failure.kind == "stream_broken", ended
    assert "Half of it" in agent_text(log), agent_text(log)


async def _retries_whole(scene: Scenario, half: str, mishap: ConnectionCut | Close) -> None:
    """Checks that the log has exactly the part of a broken answer that the agent retains.

    The next turn shows what its model receives. Some agents continue after the partial answer, in
    a second reply.
    """
    broken = reply(Say(half, chunks=2), Stall(0.2), mishap)
    session = await scene.start()
    whole = Say("All of it.")
    log = await play(session, scene.script(Attempts((broken, reply(whole))), [whole]))
    if (why := end(log).failure) and why.kind == "stream_broken":
        raise UnsupportedAction("it does not ask again: the turn fails")
    assert end(log).reason == "completed", end(log)
    await play(session, scene.script([Say("And?")]))
    stored = half in scene.model_input()
    assert agent_text(log) == half * stored + "All of it.", (stored, agent_text(log))


@case("withdraws a truncated answer when it retries")
async def retry_after_cut(scene: Scenario) -> None:
    await _retries_whole(scene, "What was cut. ", ConnectionCut())


@case("withdraws an answer without an end marker when it retries")
async def retry_after_close(scene: Scenario) -> None:
    await _retries_whole(scene, "What had no end. ", Close())


@case("a key rejected later is reported at once, and the conversation is kept")
async def error_401_later(scene: Scenario) -> None:
    session = await scene.start()
    await play(session, scene.script([Say("The bird is a heron.")]))
    log = await play(session, scene.script(Fail(401, message="Incorrect API key provided")))
    failure = end(log).failure
    assert failure, end(log)
    assert (failure.kind, bool(failure.hint)) == ("not_signed_in", True), failure
    log = await play(session, scene.script([Say("Here again.")]))
    assert agent_text(log) == "Here again.", (agent_text(log), end(log))
    assert "The bird is a heron." in scene.model_input(), (
        "its model was not told what was said before"
    )


@case("does not repeat a tool call when the next model call is retried")
async def retry_after_call(scene: Scenario) -> None:
    session = await scene.start(approve="auto")
    fail = Fail(503, message="Overloaded", retry_after=0.2)
    log = await play(
        session,
        scene.script(
            [do("shell", "echo once >> times.txt")], Attempts((fail, reply(Say("Once."))))
        ),
    )
    assert end(log).reason == "completed", end(log)
    assert agent_text(log).endswith("Once."), agent_text(log)
    calls = [event.title for event in of(log, ToolStarted)]
    assert (len(calls), (scene.project / "times.txt").read_text()) == (1, "once\n"), calls


@case("is usable after a failure")
async def usable_after_failure(scene: Scenario) -> None:
    session = await scene.start()
    await play(session, scene.script(Fail(400, message="not like that")))
    log = await play(session, scene.script([Say("Here again.")]))
    assert agent_text(log) == "Here again.", agent_text(log)
