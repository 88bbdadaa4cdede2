"""Questions of an agent in editors with forms, with options only, and with neither."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.surfaces.acp.conftest import StartEditor
from tests.surfaces.acp.editor import Editor, Message, RpcRefused
from tests.surfaces.conftest import Bench

BIRDS = [{"label": "Heron"}, {"label": "Stork"}]
BIRD = {"text": "Which bird?", "header": "Bird", "choices": BIRDS}
PLACE = {"text": "Where?", "choices": [{"label": "Ulm"}, {"label": "Bonn", "description": "west"}]}
WHY = {"text": "Why?"}
FORMS = {"elicitation": {"form": {}}}


def pick(*labels: str) -> Any:
    """Picks these options, one per request."""
    left = list(labels)

    def chosen(params: Message) -> Message:
        label = left.pop(0)
        option = next(one for one in params["options"] if one["name"] == label)
        return {"outcome": {"outcome": "selected", "optionId": option["optionId"]}}

    return chosen


async def ask(editor: Editor, project: Path, *questions: Message) -> str:
    session = await editor.new(project)
    await editor.prompt(session, {"question": list(questions)}, {"say": "{answer}"})
    return editor.said()


async def test_an_editor_with_forms_is_shown_all_questions_in_one(
    open_editor: StartEditor, project: Path
) -> None:
    editor = await open_editor(**FORMS)
    editor.handlers["elicitation/create"] = lambda _: {
        "action": "accept",
        "content": {"q1": "Stork", "q2": "Bonn", "q3": "it is near"},
    }
    assert await ask(editor, project, BIRD, PLACE, WHY) == "Stork, Bonn, it is near"
    [asked] = editor.requests("elicitation/create")
    assert asked["params"]["mode"] == "form"
    fields = asked["params"]["requestedSchema"]["properties"]
    assert fields["q1"] == {
        "type": "string",
        "oneOf": [{"const": "Heron", "title": "Heron"}, {"const": "Stork", "title": "Stork"}],
        "description": "Which bird?",
        "title": "Bird",
    }
    assert fields["q2"]["oneOf"][1]["description"] == "west"
    assert fields["q3"] == {"type": "string", "description": "Why?"}


async def test_a_declined_form_declines_the_question(
    open_editor: StartEditor, project: Path
) -> None:
    editor = await open_editor(**FORMS)
    editor.handlers["elicitation/create"] = lambda _: {"action": "decline"}
    assert await ask(editor, project, BIRD) == "deny"


async def test_an_editor_without_forms_is_asked_one_question_after_the_other(
    editor: Editor, project: Path
) -> None:
    editor.handlers["session/request_permission"] = pick("Stork", "Ulm")
    assert await ask(editor, project, BIRD, PLACE) == "Stork, Ulm"
    asked = editor.requests("session/request_permission")
    titles = [message["params"]["toolCall"]["title"] for message in asked]
    assert titles == ["Which bird?", "Where?"]


async def test_an_editor_that_refuses_its_form_is_asked_by_options(
    open_editor: StartEditor, project: Path
) -> None:
    editor = await open_editor(**FORMS)
    editor.handlers["session/request_permission"] = pick("Heron")

    def refuse(params: Message) -> None:
        raise RpcRefused({"code": -32601, "message": "Method not found"})

    editor.handlers["elicitation/create"] = refuse
    assert await ask(editor, project, BIRD) == "Heron"


async def test_a_question_without_choices_waits_for_another_surface(
    bench: Bench, editor: Editor
) -> None:
    session = await editor.new(bench.project)
    steps = json.dumps([{"question": [WHY]}, {"say": "{answer}"}])
    prompt = editor.send(
        "session/prompt", sessionId=session, prompt=[{"type": "text", "text": steps}]
    )
    told = await editor.until_update("agent_thought_chunk")
    assert f"tillerman requests answer {session}/" in told["content"]["text"]
    [open] = json.loads(bench.run("requests", "list", "--json").stdout)
    name = f"{session}/{open['request']['request_id']}"
    bench.run("requests", "answer", name, "allow", "--choose", "for the heron")
    assert (await editor.answer(prompt))["stopReason"] == "end_turn"
    assert editor.said() == "for the heron"
