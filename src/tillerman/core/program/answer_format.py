"""Requests an answer that matches a JSON schema, and parses it from the agent's text."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from math import isfinite
from typing import Any, NoReturn

from msgspec import Struct

_FENCED = re.compile(r"^[ \t]*```[\w-]*[ \t]*\n(.*?)^[ \t]*```[ \t]*$", re.DOTALL | re.MULTILINE)


class AnswerFormat(Struct, frozen=True):
    schema: Mapping[str, Any]
    repair: bool = False  # ask the agent once more if its answer does not match


class NoJson(ValueError):
    pass


def read_answer(text: str) -> Any:
    """The JSON value of the text, or of its only fenced code block. Raises `NoJson`."""
    try:
        return _value(text)
    except ValueError as error:
        blocks = _FENCED.findall(text)
        if len(blocks) != 1:
            raise NoJson(f"the answer is not JSON: {error}") from None
    try:
        return _value(blocks[0])
    except ValueError as error:
        raise NoJson(f"the answer's only code block is not JSON: {error}") from None


REQUEST = (
    "Your final answer must be one JSON value that is valid against the JSON Schema below: "
    "no other text, no code block around it."
)


def request_for(schema: Mapping[str, Any]) -> str:
    """The instruction for an agent that has no schema option."""
    return f"{REQUEST}\n\n{json.dumps(dict(schema))}"


def repair_request(problem: str, schema: Mapping[str, Any]) -> str:
    return f"Your answer cannot be used: {problem}\n\nAnswer again. {request_for(schema)}"


def _value(text: str) -> Any:
    """Parses strict JSON: rejects `NaN` and infinite numbers, which Python accepts."""
    try:
        return json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _finite(number: str) -> float:
    value = float(number)
    return value if isfinite(value) else _refuse(number)


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")
