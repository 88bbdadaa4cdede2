"""Validates the answer of a turn against the schema that was asked for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from msgspec.structs import replace

from tillerman.core.agent import AgentInfo, Prompt
from tillerman.core.errors import UsageError
from tillerman.core.events import TurnEnded
from tillerman.core.failure import Failure
from tillerman.core.json_fields import storable
from tillerman.core.program.answer_format import (
    AnswerFormat,
    NoJson,
    read_answer,
    repair_request,
    request_for,
)

LONGEST = 400  # characters of a problem description


class Repair(NamedTuple):
    """A prompt that asks the agent to repair its answer."""

    text: str


class AnswerCheck:
    """Checks answers. `text` returns the agent's last message; one repair is allowed per prompt."""

    def __init__(self, format: AnswerFormat, text: Callable[[], Awaitable[str]]) -> None:
        self._format = format
        self._text = text
        self._repaired = False

    def begin_turn(self) -> None:
        self._repaired = False

    def request(self, prompt: Prompt, agent: AgentInfo) -> Prompt:
        """Adds the schema to the prompt for an agent without schema support."""
        if "schema" in agent.can:
            return prompt
        return replace(prompt, text=f"{prompt.text}\n\n{request_for(self._format.schema)}")

    async def check(self, end: TurnEnded) -> tuple[TurnEnded, Repair | None]:
        """Returns the turn's end with the value; or a failed one, and a repair if one is left."""
        try:
            value = end.result if end.result is not None else read_answer(await self._text())
        except NoJson as error:
            problem = str(error)
        else:
            problem = _problem(self._format.schema, value)
            if not problem:
                return replace(end, result=storable(value)), None
        repair = None
        if self._format.repair and not self._repaired:
            self._repaired = True
            repair = Repair(repair_request(problem, self._format.schema))
        return TurnEnded(reason="failed", failure=_mismatch(problem), result=end.result), repair


def check_schema(schema: Any) -> None:
    """Raises `UsageError` for an invalid JSON Schema."""
    from jsonschema import SchemaError

    try:
        _validator(schema).check_schema(schema)
    except SchemaError as error:
        where = "/".join(map(str, error.path))
        raise UsageError(
            f"the output schema is not a valid JSON Schema: {_cut(error.message)}",
            hint=f"check {where} in the schema" if where else "",
        ) from None


def _problem(schema: Any, value: Any) -> str:
    """Describes what is wrong with the value in one sentence; empty if it is valid."""
    from jsonschema.exceptions import best_match
    from referencing.exceptions import Unresolvable

    try:
        error = best_match(_validator(schema).iter_errors(value))
    except Unresolvable as missing:
        return f"the schema refers to {missing.ref!r}, which is not in it"
    except RecursionError:
        return "it is nested too deeply to be validated"
    return _cut(f"at {error.json_path}, {error.message}") if error else ""


def _validator(schema: Any) -> Any:
    """A validator without a registry, so that references are not fetched."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for
    from referencing import Registry

    return validator_for(schema, default=Draft202012Validator)(schema, registry=Registry())


def _mismatch(problem: str) -> Failure:
    return Failure(
        kind="schema_mismatch",
        message=f"the answer does not match the output schema: {problem}",
        hint="prompt again, retry automatically with --repair-output, or relax the schema",
    )


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
