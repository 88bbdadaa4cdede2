"""The inputs of a run: what was given, checked against what the pipeline declares."""

from __future__ import annotations

from collections.abc import Mapping

from tillerman.core.errors import UsageError
from tillerman.pipelines.document import suggestion
from tillerman.pipelines.steps import Input, Pipeline
from tillerman.pipelines.templates import Value

_BOOLEANS = ("true", "false")


def input_values(pipeline: Pipeline, given: Mapping[str, str]) -> dict[str, Value]:
    """The value of every input, as templates insert it. Raises UsageError.

    A list is given as one entry a line. An input that is neither given nor required is empty.
    """
    for name in given:
        if name not in pipeline.inputs:
            known = tuple(pipeline.inputs)
            hint = suggestion(name, known) if known else "it has no inputs"
            raise UsageError(f"{pipeline.name} has no input {name!r}", hint=hint)
    values: dict[str, Value] = {}
    for name, one in pipeline.inputs.items():
        if name in given:
            if problem := problem_with(one, given[name]):
                raise UsageError(f"input {name}: {problem}", hint=_hint(one))
            values[name] = _value(one, given[name])
        elif one.required:
            what = f": {one.description.strip()}" if one.description.strip() else ""
            hint = f"--input {name}=VALUE{what}"
            raise UsageError(f"the input {name!r} is missing", hint=hint)
        else:
            values[name] = default_value(one)
    return values


def problem_with(one: Input, text: str) -> str:
    """Why a text is no value of an input; empty if it is one."""
    if "\0" in text:
        return "contains a NUL character"
    match one.type:
        case "integer" if not _is_number(int, text):
            return f"{_short(text)!r} is not a whole number"
        case "number" if not _is_number(float, text):
            return f"{_short(text)!r} is not a number"
        case "boolean" if text not in _BOOLEANS:
            return f"{_short(text)!r} is not true or false"
        case "string" if one.choices and text not in one.choices:
            return f"{_short(text)!r} is not one of {', '.join(one.choices)}"
        case _:
            return ""


def default_value(one: Input) -> Value:
    match one.default:
        case None:
            return () if one.type == "list" else ""
        case bool():
            return _BOOLEANS[0] if one.default else _BOOLEANS[1]
        case tuple():
            return one.default
        case _:
            return str(one.default)


def _value(one: Input, text: str) -> Value:
    if one.type == "list":
        return tuple(line.strip() for line in text.splitlines() if line.strip())
    return text


def _hint(one: Input) -> str:
    if one.choices:
        return suggestion("", one.choices)
    return f"give a value of type {one.type}"


def _is_number(kind: type[int] | type[float], text: str) -> bool:
    try:
        value = kind(text)
    except ValueError:
        return False
    return len(text) <= 40 and abs(value) < float("inf")


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:40]}…"
