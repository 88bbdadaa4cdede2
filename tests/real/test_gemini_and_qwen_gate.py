"""The gate of the real Gemini CLI and Qwen Code, whatever their settings contain."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.real.desk import MAX_WAIT, Desk, ends, of, run, until
from tests.real.stages import Actor
from tillerman.core.events import Answer, PermissionRequested, ToolFinished, ToolStarted, TurnEnded
from tillerman.testing.gate_probe.probes import GateProbes, holds
from tillerman.testing.model_double.script import ModelToolCall, Say, reply

pytestmark = [pytest.mark.real, pytest.mark.agents("gemini", "qwen"), pytest.mark.timeout(240)]

COMPLETED = TurnEnded(reason="completed")
ALL = dict.fromkeys(("read", "write", "shell", "network", "mcp"), "enforced")


def tools(desk: Desk) -> set[str]:
    """The tools that the model was offered first."""
    reported = desk.double.turns[0].body["tools"]
    names = [one["function"]["name"] for one in reported if "function" in one]
    return {
        *names,
        *(one["name"] for some in reported for one in some.get("functionDeclarations", ())),
    }


def store_settings(actor: Actor, **settings: Any) -> None:
    """Adds to the settings of the CLI's user."""
    file = actor.home / f".{actor.agent}" / "settings.json"
    stored = json.loads(file.read_text())
    file.write_text(json.dumps(stored | settings))


def requests(log: Any) -> list[tuple[str, str]]:
    return [(one.tool, one.title) for one in of(log, PermissionRequested)]


async def test_calls_the_user_allows_in_the_cli_are_requested_all_the_same(
    any_desk: Desk, actor: Actor
) -> None:
    store_settings(
        actor,
        tools={"allowed": ["run_shell_command", "read_file"], "approvalMode": "auto_edit"},
        permissions={"allow": ["Bash", "Read", "Edit"]},
    )
    if actor.agent == "gemini":
        policies = actor.home / ".gemini" / "policies"
        policies.mkdir()
        rule = '[[rule]]\ntoolName = "*"\ndecision = "allow"\npriority = 999\n'
        (policies / "mine.toml").write_text(rule)
    any_desk.double.scenarios["all"] = [
        reply(actor.stage.shell("ls")),
        reply(actor.stage.shell("bash -c 'echo x' | cat")),
        reply(actor.stage.write(actor.project / "made.txt", "x\n")),
        reply(Say("Done.")),
    ]
    session = await any_desk.start()

    log = await run(session, "@@all@@ go")

    assert not tools(any_desk) & {"invoke_agent", "agent"}  # subagents would not ask
    assert requests(log) == [
        ("Bash", "Bash `ls`"),
        ("Bash", "Bash `bash -c 'echo x' | cat`"),
        ("Write", "Write `made.txt`"),
    ]
    assert ends(log) == [COMPLETED]


async def test_calls_the_user_denies_in_the_cli_stay_denied(any_desk: Desk, actor: Actor) -> None:
    """Qwen Code treats a command that writes as a write."""
    store_settings(actor, tools={"exclude": ["write_file"]}, permissions={"deny": ["WriteFile"]})
    if actor.agent == "gemini":
        policies = actor.home / ".gemini" / "policies"
        policies.mkdir()
        (policies / "mine.toml").write_text(
            '[[rule]]\ntoolName = "run_shell_command"\ncommandPrefix = "touch"\n'
            'decision = "deny"\npriority = 100\n'
        )
    any_desk.double.scenarios["touch"] = [
        reply(actor.stage.shell("touch made.txt")),
        reply(actor.stage.shell("echo x")),
        reply(Say("Done.")),
    ]
    session = await any_desk.start()

    log = await run(session, "@@touch@@ go")

    assert "write_file" not in tools(any_desk)
    assert requests(log) == [("Bash", "Bash `echo x`")]
    assert not (actor.project / "made.txt").exists()


@pytest.mark.agents("qwen")
async def test_administrator_settings_apply_beside_ours(any_desk: Desk, actor: Actor) -> None:
    system = any_desk.folder / "system.json"
    system.write_text('{"permissions": {"deny": ["WriteFile"], "allow": ["Bash"]}} // mine')
    any_desk.double.scenarios["sh"] = [reply(actor.stage.shell("ls")), reply(Say("Done."))]
    session = await any_desk.start(environment={"QWEN_CODE_SYSTEM_SETTINGS_PATH": str(system)})

    log = await run(session, "@@sh@@ go")

    assert "write_file" not in tools(any_desk)
    assert requests(log) == [("Bash", "Bash `ls`")]


@pytest.mark.agents("gemini")
async def test_only_its_own_plan_is_written_without_approval(any_desk: Desk, actor: Actor) -> None:
    any_desk.double.scenarios["plan"] = [
        reply(ModelToolCall("write_file", {"file_path": "the-plan.md", "content": "# Plan\n"})),
        reply(actor.stage.write(actor.project / "made.txt", "x\n")),
        reply(actor.stage.shell("touch made.txt")),
        reply(Say("Done.")),
    ]
    session = await any_desk.start(mode="plan")

    log = await run(session, "@@plan@@ go")

    plan, *rest = of(log, ToolFinished)
    assert plan.outcome == "completed"
    assert [one.outcome for one in rest] == ["denied", "denied"]
    assert "the-plan.md" not in str(requests(log))
    assert of(log, ToolStarted)[0].name == "plan_file"
    assert list(actor.home.glob(".gemini/tmp/*/**/plans/the-plan.md"))
    assert not (actor.project / "made.txt").exists()
    assert ends(log) == [COMPLETED]


@pytest.mark.agents("gemini")
async def test_a_plan_in_a_file_is_shown_before_it_is_approved(
    any_desk: Desk, actor: Actor
) -> None:
    any_desk.double.scenarios["plan"] = [
        reply(
            ModelToolCall(
                "write_file", {"file_path": "the-plan.md", "content": "# Plan\n\n1. fish\n"}
            )
        ),
        reply(ModelToolCall("exit_plan_mode", {"plan_filename": "the-plan.md"})),
        reply(Say("Done.")),
    ]
    session = await any_desk.start(mode="plan", approve="ask")

    await session.prompt("@@plan@@ go")
    asked = await until(session, PermissionRequested)
    session.answer(asked.request_id, Answer("allow"))
    await session.idle()

    assert (asked.tool, asked.input["plan"]) == ("ExitPlanMode", "# Plan\n\n1. fish\n")
    assert ends(any_desk.log(session)) == [COMPLETED]


@pytest.mark.agents("qwen")
@pytest.mark.parametrize("surface", ["acp", "stream-json"])
async def test_an_older_version_and_the_other_transport_ask_as_much(
    any_desk: Desk, actor: Actor, surface: str
) -> None:
    if (actor.version, surface) == ("0.24.4", "acp"):
        pytest.skip("the test of all agents")
    gate_probes = _aviary(any_desk, actor)
    session = await any_desk.start(
        approve="ask",
        tools=("SaveMemory",),  # it is never called
        options={"surface": surface},
        servers=gate_probes.servers,
    )

    async with asyncio.timeout(4 * MAX_WAIT):
        assert holds(await gate_probes.run(session)) == ALL


@pytest.mark.agents("gemini")
async def test_its_one_way_stream_requests_and_declares_nothing(
    any_desk: Desk, actor: Actor
) -> None:
    """It withholds what would need approval, except reads and harmless commands."""
    (actor.project / "there.txt").write_text("x\n")
    any_desk.double.scenarios["both"] = [
        reply(actor.stage.read(actor.project / "there.txt")),
        reply(actor.stage.write(actor.project / "made.txt", "x\n")),
        reply(Say("Done.")),
    ]
    options = {**actor.stage.options, "surface": "stream-json"}
    session = await any_desk.start(approve="ask", accept_advisory=True, options=options)

    log = await run(session, "@@both@@ go")

    assert requests(log) == []
    assert [one.outcome for one in of(log, ToolFinished)] == ["completed", "denied"]
    assert not (actor.project / "made.txt").exists()
    assert ends(log) == [COMPLETED]


def _aviary(desk: Desk, actor: Actor) -> GateProbes:
    marks: Path = desk.folder / "marks"
    return GateProbes(actor.stage, actor.version, desk.double, project=desk.project, marks=marks)
