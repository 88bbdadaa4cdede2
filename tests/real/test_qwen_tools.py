"""What only Qwen Code takes and tells: lists of tools, subagents."""

from __future__ import annotations

import pytest
from desk import Desk, ends, of, run, said
from stages import Actor

from bridle.core.events import PermissionRequested, ToolFinished, ToolStarted, TurnEnded
from bridle.testing.model_script import Call, Say, reply

pytestmark = [pytest.mark.real, pytest.mark.agents("qwen"), pytest.mark.timeout(120)]

COMPLETED = TurnEnded(reason="completed")


def offered(desk: Desk) -> set[str]:
    tools = desk.double.turns[0].body["tools"]
    return {tool["function"]["name"] for tool in tools}


async def test_a_denied_tool_is_not_offered_to_the_model(any_desk: Desk, actor: Actor) -> None:
    any_desk.double.scenarios["hello"] = [reply(Say("Hello."))]
    session = await any_desk.start(denied_tools=("run_shell_command",))

    await run(session, "@@hello@@ go")

    assert "run_shell_command" not in offered(any_desk)
    assert "write_file" in offered(any_desk)


async def test_an_allowed_tool_runs_unasked(any_desk: Desk, actor: Actor) -> None:
    any_desk.double.scenarios["write"] = [
        reply(actor.stage.write(actor.project / "made.txt", "x\n")),
        reply(Say("Done.")),
    ]
    session = await any_desk.start(allowed_tools=("write_file",))

    log = await run(session, "@@write@@ go")

    assert of(log, PermissionRequested) == []
    assert (actor.project / "made.txt").read_text() == "x\n"


async def test_a_command_without_output_shows_none(any_desk: Desk, actor: Actor) -> None:
    any_desk.double.scenarios["sh"] = [
        reply(actor.stage.shell("touch made.txt")),
        reply(Say("Done.")),
    ]
    session = await any_desk.start()

    [end] = of(await run(session, "@@sh@@ go"), ToolFinished)

    assert (end.outcome, end.content) == ("completed", ())


async def test_a_subagent_works_inside_the_call_that_began_it(any_desk: Desk, actor: Actor) -> None:
    spawn = {"description": "sub", "prompt": "@@sub@@ do it", "subagent_type": "general-purpose"}
    any_desk.double.scenarios |= {
        "main": [reply(Call("agent", spawn, id="c_spawn")), reply(Say("It is done."))],
        "sub": [reply(actor.stage.shell("ls", id="c_sub")), reply(Say("I did it."))],
    }
    session = await any_desk.start()

    log = await run(session, "@@main@@ go")

    calls = {call.call_id: call for call in of(log, ToolStarted)}
    assert calls["c_spawn"].tool == "Task"
    assert "It is done." in said(log)
    if actor.version == "0.15.10":  # newer ones let it work in the background, and tell the end
        assert calls["c_sub"].parent == "c_spawn"
    assert ends(log)[0] == COMPLETED
