"""The real `codex exec` as a separate agent, for versions without an app-server."""

from __future__ import annotations

import pytest

from tests.real.desk import (
    Desk,
    agent_text,
    ends,
    finished,
    no_process_left,
    of,
    processes_with,
    run,
    until_true,
)
from tests.real.stages import STAGES, Actor
from tillerman.agents import load
from tillerman.core.events import AgentReady, ToolStarted, TurnEnded, UsageReported
from tillerman.sessions.session import Session
from tillerman.testing.model_double.openai_responses import user_text
from tillerman.testing.model_double.script import Fail, Say, Think, Usage, reply
from tillerman.testing.model_double.server import ModelDouble

pytestmark = [pytest.mark.real, pytest.mark.agents("codex"), pytest.mark.timeout(90)]

stage = STAGES["codex"]


async def start(desk: Desk, **settings: object) -> Session:
    spec, run_settings = desk._split(settings)
    return await desk.sessions.start(load("codex-exec"), spec, run_settings)


async def test_turns_are_processes_of_one_conversation(any_desk: Desk) -> None:
    desk = any_desk
    desk.double.scenarios |= {
        "one": [reply(Think("Hm."), Say("Noted."), usage=Usage(input=100, output=10))],
        "two": [reply(Say("Plum."), usage=Usage(input=200, output=20))],
    }
    session = await start(desk)

    first = await run(session, "@@one@@ the word is plum")
    second = await run(session, "@@two@@ which word?")

    assert (agent_text(first), agent_text(second)) == ("Noted.", "Plum.")
    assert "the word is plum" in user_text(desk.double.turns[1].body)
    assert len({ready.native_id for ready in of(desk.log(session), AgentReady)}) == 1
    usage = [(one.input_tokens, one.output_tokens) for one in of(desk.log(session), UsageReported)]
    assert usage == [(100, 10), (200, 20)]


@pytest.mark.parametrize(("approve", "outcome"), [("auto", "completed"), ("ask", None)])
async def test_it_writes_only_where_everything_is_allowed_and_trusts_no_folder(
    any_desk: Desk, approve: str, outcome: str | None
) -> None:
    desk = any_desk
    config = desk.player.home / ".codex" / "config.toml"
    before = config.read_bytes()
    desk.double.scenarios["write"] = [
        reply(stage.write(desk.project / "made.txt", "x\n")),
        reply(Say("Tried.")),
    ]
    session = await start(desk, approve=approve)

    log = await run(session, "@@write@@ go")

    assert ends(log) == [TurnEnded(reason="completed")]
    made = [finished(log, call.call_id).outcome for call in of(log, ToolStarted)]
    assert made == ([outcome] if outcome else [])  # it does not report a patch that it refused
    assert (desk.project / "made.txt").exists() == (outcome is not None)
    assert config.read_bytes() == before


async def test_a_failure_and_a_missing_conversation_have_their_reasons(
    any_desk: Desk,
) -> None:
    desk = any_desk
    desk.double.scenarios["fail"] = [Fail(401, message="Incorrect API key")]
    session = await start(desk)
    [end] = ends(await run(session, "@@fail@@ go"))
    assert end.failure is not None
    assert (end.failure.kind, end.failure.status) == ("not_signed_in", 401)

    gone = await start(desk, resume="01a1df12-f168-7e02-b835-c4c8f2a2202e")
    [end] = ends(await run(gone, "hello"))
    assert end.failure is not None
    assert "no rollout found" in end.failure.message


async def test_an_interrupt_ends_its_processes(
    actor: Actor, any_desk: Desk, double: ModelDouble
) -> None:
    desk = any_desk
    desk.double.scenarios["busy"] = [reply(stage.shell("while :; do sleep 0.2; done"))]
    session = await start(desk)
    home = f"HOME={actor.home}"

    await session.prompt("@@busy@@ go")
    await until_true(lambda: any("sleep 0.2" in line for line in processes_with(home)))
    await session.cancel()
    await session.idle()

    await no_process_left(actor)
    assert ends(desk.log(session)) == [TurnEnded(reason="cancelled")]
