"""Questions of an agent for the editor: as a form, or one by one as options to choose from."""

from __future__ import annotations

from typing import Any

from tillerman.core.events import Answer, Question, QuestionAsked
from tillerman.core.json_fields import Table, at
from tillerman.core.terminal_sanitizer import clean

DECLINED = Answer("deny", note="The user declined to answer.")
SKIP = "skip"


def form(event: QuestionAsked) -> Table:
    """`message` and `requestedSchema` of `elicitation/create`."""
    properties = {f"q{number}": _field(one) for number, one in enumerate(event.questions, 1)}
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    words = [clean(one.text) for one in event.questions]
    return {"mode": "form", "message": "\n".join(words), "requestedSchema": schema}


def _field(question: Question) -> Table:
    shown: Table = {"description": clean(question.text)}
    if question.header:
        shown["title"] = clean(question.header)
    if not question.choices:
        return {"type": "string", **shown}
    offered = [_choice(one.label, one.description) for one in question.choices]
    if question.many:
        return {"type": "array", "items": {"anyOf": offered}, **shown}
    return {"type": "string", "oneOf": offered, **shown}


def _choice(label: str, description: str) -> Table:
    told = {"const": label, "title": clean(label)}
    return told | ({"description": clean(description)} if description else {})


def filled_in(result: Any, event: QuestionAsked) -> Answer | None:
    """The answer in the response to `elicitation/create`; None: it cannot be understood."""
    match at(result, "action"):
        case "decline" | "cancel":
            return DECLINED
        case "accept":
            answers: dict[str, str] = {}
            for number, question in enumerate(event.questions, 1):
                value = at(result, "content", f"q{number}")
                if isinstance(value, list):
                    value = ", ".join(str(one) for one in value)
                if value is not None:
                    answers[question.text] = str(value)
            return Answer("allow", answers=answers)
    return None


def options(question: Question) -> list[Table]:
    """The choices of a question as options of a permission request."""
    offered = [
        {"optionId": f"choice-{number}", "name": clean(one.label), "kind": "allow_once"}
        for number, one in enumerate(question.choices)
    ]
    return [*offered, {"optionId": SKIP, "name": "Skip", "kind": "reject_once"}]


def picked(result: Any, question: Question) -> str | None:
    """The chosen label; None: the user skipped it."""
    option = at(result, "outcome", "optionId")
    labels = {f"choice-{number}": one.label for number, one in enumerate(question.choices)}
    return labels.get(option) if isinstance(option, str) else None
