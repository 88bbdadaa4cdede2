"""Options that only a program can give: callbacks, and a type for the answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tillerman.core.errors import UsageError
from tillerman.core.program.callbacks import NAMES, Callbacks


def plan_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options as a launch plan takes them: callbacks together, and a schema for a type."""
    given = {name: value for name, value in options.items() if name not in NAMES}
    if callbacks := {name: options[name] for name in NAMES if options.get(name) is not None}:
        given["callbacks"] = Callbacks(**callbacks)
    output = given.pop("output", None)
    if output is not None:
        if given.get("output_schema") is not None:
            raise UsageError(
                "output and output_schema cannot be given together", hint="omit one of them"
            )
        given["output_schema"] = schema_of(output)
    return given


def schema_of(output: type) -> dict[str, Any]:
    """The JSON Schema of a struct, dataclass, TypedDict or pydantic model."""
    if callable(make := getattr(output, "model_json_schema", None)):
        schema: dict[str, Any] = make()
        return schema
    from msgspec.json import schema as json_schema

    try:
        return json_schema(output)
    except TypeError as error:
        raise UsageError(
            f"output cannot be {output.__name__}: {str(error).splitlines()[0]}",
            hint="use a msgspec.Struct, a dataclass, a TypedDict or a pydantic model",
        ) from None
