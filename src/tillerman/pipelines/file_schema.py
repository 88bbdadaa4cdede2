"""The JSON Schema of pipeline files, for editors: what can be said of a file without its graph."""

from __future__ import annotations

from typing import Any

import msgspec

from tillerman.pipelines import definition, step_reader
from tillerman.pipelines.step_reader import HUMAN_REVIEW

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string", "minLength": 1}
_TEMPLATE: Schema = {**_TEXT, "description": "a text with {{ inputs.NAME }}, {{ steps.ID.text }}"}
_COMMAND: Schema = {**_TEXT, "description": "a shell command; values are quoted in it"}
_NAMES: Schema = {
    "anyOf": [_TEXT, {"type": "array", "items": _TEXT, "minItems": 1, "uniqueItems": True}]
}
_ID: Schema = {"type": "string", "pattern": "^[a-z][a-z0-9-]{0,63}$"}
_STEPS: Schema = {"type": "array", "items": {"$ref": "#/$defs/step"}, "minItems": 1}
_EXIT: Schema = {"type": "integer", "minimum": 0, "maximum": 255}


def document() -> str:
    data = msgspec.json.encode(_schema(), order="deterministic")
    return msgspec.json.format(data, indent=2).decode()


def _schema() -> Schema:
    top: Schema = {
        "name": {**_TEXT, "description": "that of the file, without its suffix"},
        "description": _TEXT,
        "inputs": {"type": "object", "additionalProperties": {"$ref": "#/$defs/input"}},
        "steps": _STEPS,
        "process": {
            "type": "array",
            "items": _TEXT,
            "minItems": 1,
            "description": f"agents and profiles, one after the other, and {HUMAN_REVIEW}",
        },
        "workspace": {"enum": ["worktree", "shared"]},
        "git": {
            "anyOf": [
                {"type": "boolean"},
                _table({"commit": _flag()}, "commit"),
            ]
        },
        "limits": {"$ref": "#/$defs/limits"},
    }
    assert set(top) == set(definition.KEYS)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A pipeline of tillerman",
        **_table(top),
        "oneOf": [{"required": ["steps"]}, {"required": ["process"]}],
        "$defs": {"step": _step(), "input": _input(), "limits": _limits(), "judge": _judge()},
    }


def _step() -> Schema:
    agent = _agent()
    command: Schema = {
        "run": _COMMAND,
        "exits": {
            "anyOf": [_EXIT, {"type": "array", "items": _EXIT, "minItems": 1}],
            "description": "exit codes with which it passes; default: 0",
        },
    }
    best = {
        "attempts": {
            "anyOf": [
                {"type": "integer", "minimum": 2, "maximum": step_reader.MOST_ATTEMPTS},
                {"type": "array", "items": _TEXT, "minItems": 2, "uniqueItems": True},
            ]
        },
        "judge": {"$ref": "#/$defs/judge"},
        **agent,
        **command,
    }
    loop = {
        "until": _COMMAND,
        "most": _whole(step_reader.MOST_ITERATIONS),
        "steps": _STEPS,
    }
    over = {"anyOf": [_TEMPLATE, {"type": "array", "items": _TEXT, "minItems": 1}]}
    each = {
        "over": over,
        "as": {"type": "string", "pattern": "^[a-z][a-z0-9_]{0,63}$"},
        "width": _whole(step_reader.WIDEST),
        "steps": _STEPS,
    }
    given: Schema = {"type": ["string", "number", "boolean"]}
    properties: Schema = {
        "id": _ID,
        "needs": {"anyOf": [_ID, {"type": "array", "items": _ID, "uniqueItems": True}]},
        "limits": {"$ref": "#/$defs/limits"},
        **agent,
        **command,
        "review": {**_TEXT, "description": f"what a person is asked, or {HUMAN_REVIEW}"},
        "parallel": _STEPS,
        "best_of": _table(best, "attempts", "judge"),
        "loop": _table(loop, "until", "steps"),
        "map": _table(each, "over", "steps"),
        "pipeline": _TEXT,
        "inputs": {"type": "object", "additionalProperties": given},
    }
    assert set(properties) == set(step_reader.STEP_KEYS)
    kinds = [{"required": [kind]} for kind in step_reader.KINDS]
    return {**_table(properties, "id"), "oneOf": kinds}


def _agent() -> Schema:
    return {
        "agent": {**_NAMES, "description": "a profile or an agent; a list: with its fallbacks"},
        "prompt": _TEMPLATE,
        "mode": {"enum": list(step_reader.MODES)},
        "model": _TEXT,
        "approve": {"enum": list(step_reader.APPROVE)},
        "tools": {**_flag(), "description": "the workspace tools"},
        "interrupted": {"enum": ["resume", "restart"]},
    }


def _input() -> Schema:
    scalar = ["string", "number", "boolean", "array"]
    table = _table(
        {
            "description": _TEXT,
            "type": {"enum": list(definition.TYPES)},
            "default": {"type": scalar},
            "required": _flag(),
            "choices": {"type": "array", "items": _TEXT, "minItems": 1},
        }
    )
    return {"anyOf": [{"type": "null"}, table]}


def _limits() -> Schema:
    seconds: Schema = {"type": "number", "exclusiveMinimum": 0}
    text: Schema = {"type": "string", "pattern": "^[0-9.dhms]+$", "examples": ["90s", "1h30m"]}
    return _table(
        {
            "time": {"anyOf": [seconds, text], "description": "seconds, or such as 10m, 1h30m"},
            "cost": {"type": "number", "exclusiveMinimum": 0, "description": "US dollars"},
            "turns": {"type": "integer", "minimum": 1, "description": "model calls"},
        }
    )


def _judge() -> Schema:
    table = _table({"run": _COMMAND, "agent": _NAMES, "prompt": _TEMPLATE, "review": _TEXT})
    return {**table, "oneOf": [{"required": [kind]} for kind in ("run", "agent", "review")]}


def _table(properties: Schema, *required: str) -> Schema:
    table: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**table, "required": list(required)} if required else table


def _flag() -> Schema:
    return {"type": "boolean"}


def _whole(most: int) -> Schema:
    return {"type": "integer", "minimum": 1, "maximum": most}
