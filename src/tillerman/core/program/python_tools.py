"""Tools that are Python functions: their schemas, and the checked call of one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

import msgspec
from msgspec import Struct

from tillerman.core.errors import UsageError

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL)


class PythonTool(Struct, frozen=True):
    """A function that agents can call."""

    name: str
    description: str
    function: Callable[..., Any]
    arguments: type[Struct]

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments, with all references resolved in one object."""
        (schema,), components = msgspec.json.schema_components([self.arguments])
        own = components.pop(self.arguments.__name__, schema)
        return {**own, "$defs": components} if components else own

    def call(self, arguments: Mapping[str, Any]) -> Any:
        """Calls the function; `UsageError` if the arguments do not match its annotations."""
        try:
            given = msgspec.convert(dict(arguments), self.arguments)
        except msgspec.ValidationError as error:
            raise UsageError(
                f"{self.name}: {error}", hint="call it with arguments that match its schema"
            ) from None
        return self.function(**{name: getattr(given, name) for name in given.__struct_fields__})


class ToolServer(Struct, frozen=True):
    """An MCP server of Python functions, run by this program: a value of `servers`."""

    tools: tuple[PythonTool, ...]


def tool_server(*functions: Callable[..., Any]) -> ToolServer:
    """Offers functions as tools. Name, docstring and annotations describe each to the model."""
    tools = tuple(_tool(function) for function in functions)
    names = [tool.name for tool in tools]
    if doubled := {name for name in names if names.count(name) > 1}:
        raise UsageError(
            f"two tools have the name {min(doubled)!r}", hint="rename one of the functions"
        )
    return ToolServer(tools)


def _tool(function: Callable[..., Any]) -> PythonTool:
    if not callable(function) or not (name := getattr(function, "__name__", "")).isidentifier():
        raise UsageError(
            f"{function!r} is not a function with a name",
            hint="give a function that is made with `def`",
        )
    description = inspect.getdoc(function) or ""
    try:
        hints = get_type_hints(function, include_extras=True)
        fields = [
            _field(name, parameter, hints)
            for parameter in inspect.signature(function).parameters.values()
        ]
        arguments = msgspec.defstruct(f"{name}_arguments", fields, forbid_unknown_fields=True)
        made = PythonTool(name, description, function, arguments)
        assert made.schema  # raises for a type that has no schema
    except (NameError, TypeError) as error:
        raise UsageError(
            f"the parameters of {name} cannot be described: {error}",
            hint="annotate them with types that JSON can express",
        ) from None
    return made


def _field(
    tool: str, parameter: inspect.Parameter, hints: Mapping[str, Any]
) -> tuple[str, Any] | tuple[str, Any, Any]:
    if parameter.kind in (*_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
        raise UsageError(
            f"{tool} has the parameter {parameter}, which cannot be given by name",
            hint="a tool takes named parameters",
        )
    if parameter.name not in hints:
        raise UsageError(
            f"the parameter {parameter.name!r} of {tool} has no annotation",
            hint="annotate it, so that the model knows what to pass",
        )
    if parameter.default is parameter.empty:
        return parameter.name, hints[parameter.name]
    return parameter.name, hints[parameter.name], _default(parameter.default)


def _default(value: Any) -> Any:
    """Mutable defaults are made anew for each call."""
    if isinstance(value, list | dict | set):
        return msgspec.field(default_factory=lambda: type(value)(value))
    return value
