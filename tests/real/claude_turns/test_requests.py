"""Permissions, questions and plan mode with the real Claude Code: nothing runs before approval."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.real.desk import agent_text, ends, finished, of, run, shown, until
from tests.real.standing import StandingDesk
from tillerman.core.errors import RequestNotOpen
from tillerman.core.events import (
    Answer,
    Choice,
    PermissionRequested,
    Question,
    QuestionAsked,
    RequestAnswered,
    SettingsChanged,
    ToolFinished,
    ToolStarted,
    TurnEnded,
)
from tillerman.sessions.run_settings import TurnLimits
from tillerman.testing.model_double.anthropic import tool_results
from tillerman.testing.model_double.script import ModelToolCall, Say, reply

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(60),
    pytest.mark.asyncio(loop_scope="module"),
]


def write(path: Path, call_id: str) -> ModelToolCall:
    return ModelToolCall("Write", {"file_path": str(path), "content": "by script\n"}, id=call_id)


async def test_every_call_is_decided_including_those_the_cli_would_allow(
    desk: StandingDesk,
) -> None:
    file = desk.project / "a.txt"
    file.write_text("a\n")
    desk.double.scenarios["reads"] = [
        reply(ModelToolCall("Read", {"file_path": str(file)}, id="toolu_r1")),
        reply(ModelToolCall("Bash", {"command": "echo hi", "description": "hi"}, id="toolu_b1")),
        reply(Say("Done.")),
    ]
    session = await desk.start(approve="none")

    log = await run(session, "@@reads@@")

    asked = [(e.tool, e.call_id) for e in of(log, PermissionRequested)]
    assert asked == [("Read", "toolu_r1"), ("Bash", "toolu_b1")]
    assert [(e.by, e.surface, e.answer.option) for e in of(log, RequestAnswered)] == [
        ("policy", "none.all", "deny")
    ] * 2
    assert [e.outcome for e in of(log, ToolFinished)] == ["denied", "denied"]
    assert ends(log) == [TurnEnded(reason="completed")]


async def test_a_person_allows_a_write_and_then_it_happens(desk: StandingDesk) -> None:
    target = desk.project / "made.txt"
    desk.double.scenarios["write"] = [reply(write(target, "toolu_w2")), reply(Say("Written."))]
    session = await desk.start(approve="ask")

    await session.prompt("@@write@@")
    asked = await until(session, PermissionRequested)
    assert not target.exists()
    session.answer(asked.request_id, Answer("allow"), surface="test")
    with pytest.raises(RequestNotOpen):
        session.answer(asked.request_id, Answer("deny"), surface="elsewhere")
    await session.idle()

    assert (asked.tool, asked.paths, asked.call_id) == ("Write", (str(target),), "toolu_w2")
    assert of(desk.log(session), RequestAnswered) == [
        RequestAnswered(
            request_id=asked.request_id, answer=Answer("allow"), by="person", surface="test"
        )
    ]
    assert target.read_text() == "by script\n"


async def test_a_denial_reaches_the_model_with_its_reason(desk: StandingDesk) -> None:
    target = desk.project / "never.txt"
    desk.double.scenarios["deny"] = [reply(write(target, "toolu_w3")), reply(Say("Then not."))]
    session = await desk.start(approve="ask")

    await session.prompt("@@deny@@")
    asked = await until(session, PermissionRequested)
    session.answer(asked.request_id, Answer("deny", note="not in this house"))
    await session.idle()

    assert "not in this house" in tool_results(desk.double.turns[1].body)["toolu_w3"]
    assert finished(desk.log(session), "toolu_w3").outcome == "denied"
    assert not target.exists()
    assert session.result().text == "Then not."


async def test_a_guard_denies_a_write_outside_of_the_workspace(desk: StandingDesk) -> None:
    target = desk.folder / "outside.txt"
    desk.double.scenarios["out"] = [reply(write(target, "toolu_w4")), reply(Say("Then not."))]
    session = await desk.start(approve="edits")

    log = await run(session, "@@out@@")

    assert [(e.by, e.surface) for e in of(log, RequestAnswered)] == [("policy", "guard.outside")]
    assert "outside the workspace" in tool_results(desk.double.turns[1].body)["toolu_w4"]
    assert not target.exists()


async def test_a_changed_input_is_the_one_that_runs(desk: StandingDesk) -> None:
    wanted, given = desk.project / "wanted.txt", desk.project / "given.txt"
    desk.double.scenarios["change"] = [
        reply(write(wanted, "toolu_w5")),
        reply(
            ModelToolCall(
                "Bash", {"command": "echo model > said", "description": "say"}, id="toolu_b5"
            )
        ),
        reply(Say("Done.")),
    ]
    session = await desk.start(approve="ask")

    await session.prompt("@@change@@")
    first = await until(session, PermissionRequested)
    changed = {"file_path": str(given), "content": "by a person\n"}
    session.answer(first.request_id, Answer("allow", input=changed))
    second = await until(session, PermissionRequested, lambda e: e.tool == "Bash")
    session.answer(second.request_id, Answer("allow", input={**second.input, "command": "echo me"}))
    await session.idle()

    assert (wanted.exists(), given.read_text()) == (False, "by a person\n")
    assert shown(finished(desk.log(session), "toolu_b5")) == "me"
    assert tool_results(desk.double.turns[2].body)["toolu_b5"] == "me"


async def test_a_timeout_denies_the_call(desk: StandingDesk) -> None:
    target = desk.project / "never.txt"
    desk.double.scenarios["late"] = [reply(write(target, "toolu_w6")), reply(Say("Then not."))]
    session = await desk.start(approve="ask", limits=TurnLimits(request=0.3))

    log = await run(session, "@@late@@")

    assert [e.by for e in of(log, RequestAnswered)] == ["timeout"]
    assert "No answer within" in tool_results(desk.double.turns[1].body)["toolu_w6"]
    assert not target.exists()


async def test_a_question_gets_its_answer(desk: StandingDesk) -> None:
    asked = {
        "question": "Which colour?",
        "header": "Colour",
        "multiSelect": False,
        "options": [
            {"label": "Red", "description": "like a rose"},
            {"label": "Blue", "description": "like the sky"},
        ],
    }
    desk.double.scenarios["ask"] = [
        reply(ModelToolCall("AskUserQuestion", {"questions": [asked]}, id="toolu_q7")),
        reply(Say("Blue it is.")),
    ]
    session = await desk.start(approve="auto")

    await session.prompt("@@ask@@")
    question = await until(session, QuestionAsked)
    session.answer(question.request_id, Answer("allow", answers={"Which colour?": "Blue"}))
    await session.idle()

    choices = (Choice("Red", "like a rose"), Choice("Blue", "like the sky"))
    assert question.questions == (Question("Which colour?", "Colour", choices),)
    assert question.call_id == "toolu_q7"
    log = desk.log(session)
    assert of(log, PermissionRequested) == []
    assert finished(log, "toolu_q7").outcome == "completed"
    assert "Blue" in tool_results(desk.double.turns[1].body)["toolu_q7"]
    assert agent_text(log) == "Blue it is."


async def test_a_declined_question_is_denied(desk: StandingDesk) -> None:
    choices = [{"label": "Yes", "description": ""}, {"label": "No", "description": ""}]
    asked = {"question": "Sure?", "header": "Sure", "multiSelect": False, "options": choices}
    desk.double.scenarios["ask"] = [
        reply(ModelToolCall("AskUserQuestion", {"questions": [asked]}, id="toolu_q8")),
        reply(Say("I decide.")),
    ]
    session = await desk.start()

    await session.prompt("@@ask@@")
    question = await until(session, QuestionAsked)
    session.answer(question.request_id, Answer("deny", note="decide yourself"))
    await session.idle()

    assert finished(desk.log(session), "toolu_q8").outcome == "denied"
    assert "decide yourself" in tool_results(desk.double.turns[1].body)["toolu_q8"]


async def test_in_plan_mode_an_allowed_write_still_does_not_happen(desk: StandingDesk) -> None:
    target = desk.project / "planned.txt"
    bash = {"command": f"touch {target}", "description": "touch"}
    desk.double.scenarios["plan"] = [
        reply(write(target, "toolu_w9")),
        reply(ModelToolCall("Bash", bash, id="toolu_b9")),
        reply(Say("Only a plan.")),
    ]
    session = await desk.start(mode="plan", approve="auto")

    log = await run(session, "@@plan@@")

    assert [(e.by, e.surface, e.answer.option) for e in of(log, RequestAnswered)] == [
        ("policy", "mode.writes", "deny"),
        ("policy", "mode.commands", "deny"),
    ]
    assert [e.outcome for e in of(log, ToolFinished)] == ["denied", "denied"]
    assert not target.exists()
    assert ends(log) == [TurnEnded(reason="completed")]


@pytest.mark.parametrize("yes", [True, False], ids=["allowed", "denied"])
async def test_a_person_decides_when_planning_ends(desk: StandingDesk, yes: bool) -> None:
    target = desk.project / "planned.txt"
    desk.double.scenarios["plan"] = [
        reply(ModelToolCall("ExitPlanMode", {"plan": "1. Write it."}, id="toolu_exit11")),
        reply(write(target, "toolu_w11")),
        reply(Say("Over.")),
    ]
    session = await desk.start(mode="plan", approve="auto")

    await session.prompt("@@plan@@")
    asked = await until(session, PermissionRequested)
    assert (asked.tool, asked.input.get("plan")) == ("ExitPlanMode", "1. Write it.")
    session.answer(asked.request_id, Answer("allow" if yes else "deny", note="not yet"))
    await session.idle()

    log = desk.log(session)
    assert target.exists() == yes
    assert finished(log, "toolu_w11").outcome == ("completed" if yes else "denied")
    modes = [event.mode for event in of(log, SettingsChanged) if event.mode]
    assert modes[-1:] == (["agent"] if yes else [])
    assert session.result().text == "Over."
    await session.close()  # in another mode than it began


async def test_an_agent_that_enters_plan_mode_is_restricted_by_it(desk: StandingDesk) -> None:
    target = desk.project / "planned.txt"
    desk.double.scenarios["plan"] = [
        reply(ModelToolCall("EnterPlanMode", {}, id="toolu_enter12")),
        reply(write(target, "toolu_early12")),
        reply(ModelToolCall("ExitPlanMode", {"plan": "1. Write it."}, id="toolu_exit12")),
        reply(write(target, "toolu_w12")),
        reply(Say("Over.")),
    ]
    session = await desk.start(approve="auto")

    await session.prompt("@@plan@@")
    asked = await until(session, PermissionRequested, lambda e: e.tool == "ExitPlanMode")
    assert not target.exists()
    session.answer(asked.request_id, Answer("allow"))
    await session.idle()

    log = desk.log(session)
    assert finished(log, "toolu_early12").outcome == "denied"
    assert finished(log, "toolu_w12").outcome == "completed"
    assert [event.mode for event in of(log, SettingsChanged) if event.mode] == ["plan", "agent"]
    edited = "edited by user" in tool_results(desk.double.turns[3].body)["toolu_exit12"]
    assert edited == (desk.player.version == "2.1.197")  # which reports it of every plan


async def test_in_ask_mode_nothing_is_written_although_the_cli_would(desk: StandingDesk) -> None:
    target = desk.project / "asked.txt"
    desk.double.scenarios["ask"] = [reply(write(target, "toolu_w13")), reply(Say("An answer."))]
    session = await desk.start(mode="ask", approve="auto")

    log = await run(session, "@@ask@@")

    assert [(e.by, e.surface) for e in of(log, RequestAnswered)] == [("policy", "mode.writes")]
    assert not target.exists()


async def test_allowed_tools_do_not_bypass_the_policy(desk: StandingDesk) -> None:
    target = desk.project / "never.txt"
    desk.double.scenarios["allow"] = [reply(write(target, "toolu_w14")), reply(Say("Then not."))]
    session = await desk.start(approve="readonly", allowed_tools=("Write",))

    log = await run(session, "@@allow@@")

    assert [e.surface for e in of(log, RequestAnswered)] == ["readonly.rest"]
    assert not target.exists()
    assert of(log, ToolStarted)[0].name == "Write"
