"""What is specific to Qwen Code: lists of tools, commands without output."""

from __future__ import annotations

import pytest

from tests.real.desk import Desk, of, run
from tests.real.stages import Actor
from tillerman.core.events import PermissionRequested, ToolFinished, TurnEnded
from tillerman.testing.model_double.script import Say, reply

pytestmark = [
    pytest.mark.real,
    pytest.mark.agents("qwen"),
    pytest.mark.newest,
    pytest.mark.timeout(120),
]

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


async def test_an_allowed_tool_is_decided_like_any_other(any_desk: Desk, actor: Actor) -> None:
    any_desk.double.scenarios["write"] = [
        reply(actor.stage.write(actor.project / ".git" / "made", "x\n")),
        reply(Say("Done.")),
    ]
    session = await any_desk.start(allowed_tools=("write_file",))

    log = await run(session, "@@write@@ go")

    assert [(one.tool, one.paths) for one in of(log, PermissionRequested)] == [
        ("Write", (str(actor.project / ".git" / "made"),))
    ]
    assert [end.outcome for end in of(log, ToolFinished)] == ["denied"]
    assert not (actor.project / ".git" / "made").exists()


async def test_a_command_without_output_shows_none(any_desk: Desk, actor: Actor) -> None:
    any_desk.double.scenarios["sh"] = [
        reply(actor.stage.shell("touch made.txt")),
        reply(Say("Done.")),
    ]
    session = await any_desk.start()

    [end] = of(await run(session, "@@sh@@ go"), ToolFinished)

    assert (end.outcome, end.content) == ("completed", ())


async def test_no_subagent_is_offered_since_it_would_not_ask(any_desk: Desk, actor: Actor) -> None:
    any_desk.double.scenarios["hello"] = [reply(Say("Hello."))]
    session = await any_desk.start()

    await run(session, "@@hello@@ go")

    assert not offered(any_desk) & {"agent", "workflow", "create_sub_session", "team_create"}
