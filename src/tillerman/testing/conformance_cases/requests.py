"""Conformance cases: permission requests and questions, and the effect of their answers."""

from __future__ import annotations

import asyncio
from typing import Literal

from tillerman.core.events import (
    Answer,
    Entry,
    PermissionRequested,
    QuestionAsked,
    RequestAnswered,
    ToolFinished,
    TurnEnded,
)
from tillerman.sessions.session import Session
from tillerman.testing.conformance_cases.case import case
from tillerman.testing.model_double.script import Say
from tillerman.testing.scenario import MAX_WAIT, Scenario, agent_text, call, do, of, play, until


async def _answered(session: Session, prompt: str, kind: Literal["allow", "deny"]) -> list[Entry]:
    """Runs a turn whose only request a person answers."""
    await session.prompt(prompt)
    asked = await until(session, PermissionRequested)
    option = next(option.id for option in asked.options if option.kind == kind)
    session.answer(asked.request_id, Answer(option=option))
    async with asyncio.timeout(MAX_WAIT):
        return [entry async for entry in session.until_idle()]


@case("asks before it acts, and acts if allowed", "permissions")
async def allowed(scene: Scenario) -> None:
    file = scene.project / "allowed.txt"
    session = await scene.start(approve="ask")
    prompt = scene.script([do("write", file, "x\n")], [Say("Done.")])
    log = await _answered(session, prompt, "allow")
    assert file.read_text() == "x\n"
    _, done = call(log, "Write", "Edit")
    assert done.outcome == "completed", done
    assert [event.by for event in of(log, RequestAnswered)] == ["person"], of(log, RequestAnswered)


@case("does not act if denied, and the call is reported as denied", "permissions")
async def denied(scene: Scenario) -> None:
    file = scene.project / "denied.txt"
    session = await scene.start(approve="ask")
    prompt = scene.script([do("write", file, "x\n")], [Say("Then not.")])
    log = await _answered(session, prompt, "deny")
    assert not file.exists()
    outcomes = [event.outcome for event in of(log, ToolFinished)]
    assert outcomes == ["denied"], outcomes


@case("continues after a denial, and its model is informed", "permissions")
async def goes_on_after_denial(scene: Scenario) -> None:
    session = await scene.start(approve="ask")
    prompt = scene.script([do("shell", "date > d")], [Say("Then not.")])
    log = await _answered(session, prompt, "deny")
    assert agent_text(log).endswith("Then not."), (agent_text(log), of(log, TurnEnded))


@case("stays usable after a denial", "permissions")
async def usable_after_denial(scene: Scenario) -> None:
    session = await scene.start(approve="ask")
    await _answered(session, scene.script([do("shell", "date > d")], [Say("Then not.")]), "deny")
    log = await play(session, scene.script([Say("Still here.")]))
    assert agent_text(log) == "Still here.", agent_text(log)


@case("does not ask if the policy decides", "permissions")
async def policy_decides(scene: Scenario) -> None:
    session = await scene.start(approve="readonly")
    log = await play(session, scene.script([do("shell", "touch made")], [Say("Then not.")]))
    assert not (scene.project / "made").exists()
    assert {event.by for event in of(log, RequestAnswered)} == {"policy"}, of(log, RequestAnswered)


@case("writes nothing in plan mode, even if allowed", "modes")
async def plan_mode(scene: Scenario) -> None:
    file = scene.project / "planned.txt"
    session = await scene.start(approve="auto", mode="plan")
    await play(session, scene.script([do("write", file, "x\n")], [Say("Only planned.")]))
    assert not file.exists()


@case("asks the user a question, and receives the choice", "questions")
async def question(scene: Scenario) -> None:
    session = await scene.start(approve="ask")
    prompt = scene.script([do("ask", "Which bird?", "Heron", "Stork")], [Say("I see.")])
    await session.prompt(prompt)
    asked = await until(session, QuestionAsked)
    assert [choice.label for choice in asked.questions[0].choices][:2] == ["Heron", "Stork"], asked
    words = {asked.questions[0].text: "Stork"}
    session.answer(asked.request_id, Answer(option="allow", answers=words))
    async with asyncio.timeout(MAX_WAIT):
        await session.idle()
    assert "Stork" in scene.model_input(), "its model did not hear the answer"
