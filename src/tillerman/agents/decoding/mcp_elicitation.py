"""Converts MCP elicitation forms to questions, and the answers to form content."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tillerman.agents.decoding.fields import Table, strings, table, tables, text
from tillerman.core.events import Choice, Question


def questions(params: Table) -> list[Question]:
    """One question for each property of the form."""
    message = text(params, "message")
    properties = table(table(params, "requestedSchema"), "properties")
    return [
        Question(
            text=_asked(table(properties, name), name),
            header=message,
            choices=tuple(Choice(label) for label in _choices(table(properties, name))),
        )
        for name in properties
    ]


def content(params: Table, answers: Mapping[str, str]) -> Table:
    properties = table(table(params, "requestedSchema"), "properties")
    filled: Table = {}
    for name in properties:
        schema = table(properties, name)
        if (reported := answers.get(_asked(schema, name))) is not None:
            filled[name] = _typed(reported, text(schema, "type"))
    return filled


def _asked(schema: Table, name: str) -> str:
    return text(schema, "description") or text(schema, "title") or name


def _choices(schema: Table) -> list[str]:
    if text(schema, "type") == "boolean":
        return ["yes", "no"]
    return strings(schema, "enum") or [text(one, "const") for one in tables(schema, "oneOf")]


def _typed(message: str, kind: str) -> Any:
    try:
        match kind:
            case "boolean":
                return message.strip().lower() in ("yes", "true", "y", "1")
            case "integer":
                return int(message)
            case "number":
                return float(message)
    except ValueError:
        pass  # the server validates it
    return message
