"""Interrupting the real Codex, and the processes it leaves."""

from __future__ import annotations

import pytest

from tests.real.desk import (
    Desk,
    agent_text,
    ends,
    finished,
    of,
    processes_with,
    run,
    shown,
    until,
    until_true,
)
from tests.real.stages import STAGES
from tillerman.core.events import (
    AgentExited,
    MessageChunk,
    Notice,
    PermissionRequested,
    RequestAnswered,
    ToolFinished,
    TurnEnded,
)
from tillerman.testing.model_double.script import ModelToolCall, ReplyHold, Say, reply

pytestmark = [pytest.mark.real, pytest.mark.agents("codex"), pytest.mark.timeout(90)]

CANCELLED = TurnEnded(reason="cancelled")
COMPLETED = TurnEnded(reason="completed")
stage = STAGES["codex"]


async def test_an_interrupt_in_mid_text_ends_the_turn_and_the_session_continues(
    any_desk: Desk,
) -> None:
    desk = any_desk
    desk.double.scenarios |= {
        "hang": [reply(Say("It begins", chunks=1), ReplyHold("never"))],
        "next": [reply(Say("Still here."))],
    }
    session = await desk.start()

    await session.prompt("@@hang@@ go")
    await until(session, MessageChunk)
    await session.cancel()
    await session.idle()
    await run(session, "@@next@@ go")

    log = desk.log(session)
    assert ends(log) == [CANCELLED, COMPLETED]
    assert (agent_text(log, 1), agent_text(log, 2)) == ("It begins", "Still here.")


@pytest.mark.parametrize("sandbox", ["workspace-write", "danger-full-access"])
async def test_an_interrupt_in_a_command_ends_its_processes_and_the_session_continues(
    any_desk: Desk, sandbox: str
) -> None:
    desk = any_desk
    busy = {"cmd": "(while :; do sleep 0.21; done) & while :; do sleep 0.2; done"}
    desk.double.scenarios |= {
        "busy": [
            reply(ModelToolCall("exec_command", {**busy, "yield_time_ms": 30_000}, id="call_b"))
        ],
        "next": [reply(Say("Still here."))],
    }
    session = await desk.start(options={"sandbox": sandbox})
    home = f"HOME={desk.player.home}"

    def shells() -> list[str]:
        return [line for line in processes_with(home) if "sleep 0.2" in line]

    await session.prompt("@@busy@@ go")
    await until_true(lambda: len(shells()) > 1)
    await session.cancel()
    await session.idle()
    await until_true(lambda: not shells(), within=2)
    await run(session, "@@next@@ go")

    log = desk.log(session)
    assert ends(log) == [CANCELLED, COMPLETED]
    assert finished(log, "call_b").outcome == "cancelled"
    assert agent_text(log) == "Still here."


async def test_an_interrupt_withdraws_the_open_request(any_desk: Desk) -> None:
    desk = any_desk
    desk.double.scenarios["ask"] = [reply(stage.shell("echo x > never.txt", id="call_s"))]
    session = await desk.start(approve="ask")

    await session.prompt("@@ask@@ go")
    asked = await until(session, PermissionRequested)
    await session.cancel()
    await session.idle()

    log = desk.log(session)
    [answered] = of(log, RequestAnswered)
    assert (answered.request_id, answered.by) == (asked.request_id, "withdrawn")
    assert finished(log, "call_s").outcome in ("cancelled", "denied")
    assert ends(log) == [CANCELLED]
    assert not (desk.project / "never.txt").exists()


async def test_a_command_that_outlasts_its_turn_is_reported_twice_and_ends_with_the_session(
    any_desk: Desk,
) -> None:
    desk = any_desk
    short, long = "echo begun; sleep 6; echo over", "sleep 300.5"
    desk.double.scenarios |= {
        "leave": [
            reply(
                ModelToolCall("exec_command", {"cmd": short, "yield_time_ms": 300}, id="call_short")
            ),
            reply(
                ModelToolCall("exec_command", {"cmd": long, "yield_time_ms": 300}, id="call_long")
            ),
            reply(Say("Left running.")),
        ],
        "next": [reply(Say("Still here."))],
    }
    session = await desk.start()

    log = await run(session, "@@leave@@ go")
    notice = await until(session, Notice, lambda one: "left running" in one.text)

    assert ends(log) == [COMPLETED]
    assert finished(log, "call_short").outcome == "completed"
    assert shown(finished(log, "call_long")).endswith("(it continues in the background)")
    assert notice.text == f"Bash `{short}`, left running by an earlier turn, ended with exit code 0"
    assert len(of(desk.log(session), ToolFinished)) == 2


async def test_a_turn_cancelled_before_it_has_begun_still_ends(any_desk: Desk) -> None:
    desk = any_desk
    desk.double.scenarios |= {
        "hang": [reply(ReplyHold("never"), Say("never said"))],
        "next": [reply(Say("Still here."))],
    }
    session = await desk.start()

    await session.prompt("@@hang@@ go")
    await session.cancel()
    await session.idle()
    await run(session, "@@next@@ go")

    log = desk.log(session)
    assert ends(log) == [CANCELLED, COMPLETED]
    assert agent_text(log) == "Still here."
    assert of(log, AgentExited) == []  # by its own interrupt, not by a signal
