"""The pages of docs/reference/: commands, config, events, Python API, codes, errors, scripts."""

from __future__ import annotations

import argparse
import ast
import functools
import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import api_types
import msgspec

import tillerman
import tillerman.sync
from tillerman.config.settings import SETTINGS
from tillerman.core import errors, failure, session_options, tools
from tillerman.core.errors import TillermanError, kind_of
from tillerman.core.events import Event
from tillerman.core.failure import Failure, FailureKind
from tillerman.surfaces import exit_codes
from tillerman.surfaces.cli.parsing.argparse_errors import SUMMARY, subcommands
from tillerman.surfaces.cli.parsing.parser import build
from tillerman.surfaces.exit_codes import exit_code as code_of

PACKAGE = Path(__file__).parents[1] / "src/tillerman"
FOLDER = Path(__file__).parent / "reference"
NOTE = "\nGenerated from the code by `make docs`.\n"
INTERNAL = ("self", "head")
_COMMENT = re.compile(r"  # (?!fmt:)(.*)$")


def reference() -> dict[Path, str]:
    """Every page, by where it is."""
    made = {
        "commands": commands(),
        "config": config(),
        "events": events(),
        "api": api(),
        "exit-codes": codes(),
        "errors": error_page(),
        "mock": mock_scripts(),
    }
    return {FOLDER / f"{name}.md": text for name, text in made.items()}


# -- commands ------------------------------------------------------------------------------------


def commands() -> str:
    text = f"# Commands\n{NOTE}\n[The command line](../cli.md) explains them.\n"
    for path, parser in _walk(build(), "tillerman"):
        if path == "tillerman" or parser.get_default("command") is None:
            continue
        text += f"\n## {path}\n\n{parser.description}\n\n"
        rows = [_option(action) for action in parser._actions if _shown(action)]
        text += _table(["argument", "values", ""], rows) if rows else ""
        if parser.epilog:
            text += "\n" + textwrap.indent(textwrap.dedent(parser.epilog), "    ") + "\n"
    return text


def _walk(parser: Any, path: str) -> Iterator[tuple[str, Any]]:
    yield path, parser
    for name, inner in subcommands(parser).items():
        yield from _walk(inner, f"{path} {name}")


def _shown(action: argparse.Action) -> bool:
    hidden = action.help == argparse.SUPPRESS or SUMMARY in action.option_strings
    return not hidden and action.dest not in ("help", "color", "debug")


def _option(action: argparse.Action) -> list[str]:
    name = ", ".join(f"`{word}`" for word in action.option_strings) or f"`{_metavar(action)}`"
    if action.choices is not None:
        values = ", ".join(f"`{choice}`" for choice in action.choices)
    else:
        values = f"`{_metavar(action)}`" if action.option_strings and action.nargs != 0 else ""
    return [name, values, action.help or ""]


def _metavar(action: argparse.Action) -> str:
    return str(action.metavar or action.dest.upper())


# -- config and events ---------------------------------------------------------------------------


def config() -> str:
    rows = [[f"`{one.key}`", one.kind.show(one.default), one.help] for one in SETTINGS.values()]
    return (
        f"# Config keys\n{NOTE}\n`tillerman config show` lists the values in effect and their "
        "sources. [Config and trust](../cli.md#config-and-trust) explains the files, "
        "[the policy](../policy.md) the `[[rules]]`.\n\n" + _table(["key", "default", ""], rows)
    )


def events() -> str:
    text = f"# Events\n{NOTE}\n[JSON for programs](../json.md) explains them. Every event may also "
    text += "have `parent`: the tool call inside which a subagent works.\n"
    for kind in get_args(Event):
        text += f"\n## {kind.__struct_config__.tag}\n\n`tillerman.core.events.{kind.__name__}`\n\n"
        text += _fields(kind, leave_out=("parent",))
    return text + _tools()


def _tools() -> str:
    rows = [[f"`{name}`", tools.class_of(name) or ""] for name in tools.TOOLS]
    text = (
        "\n## Tools\n\nThe `tool` of a call, whichever agent makes it, and its class in the "
        "[policy](../policy.md#a-rule). A tool without a class has no effect by itself. A tool of "
        "an MCP server is `MCP`; its title names it as the agent does. `input` has the keys of "
        "the agent, and for `Bash` always `command`. A call that reads or changes a file has its "
        "path in `paths`.\n\n"
    )
    return text + _table(["tool", "class"], rows)


# -- the Python API ------------------------------------------------------------------------------


def api() -> str:
    text = f"# Python API reference\n{NOTE}\n[The Python API](../api.md) explains it by example. "
    text += "All names are attributes of `tillerman`.\n"
    for name in tillerman.__all__:
        made = getattr(tillerman, name)
        if isinstance(made, type) and issubclass(made, TillermanError):
            continue  # in errors.md
        if name != "__version__":
            text += f"\n## {name}\n\n{_described(name, made)}"
    text += "\n## Options of start and resume\n\n"
    text += "`start`, `query` and `ask` take all of them, `resume` and `handoff` all but `cwd`.\n\n"
    text += _options()
    text += _types()
    text += "\n## tillerman.sync\n\n" + (tillerman.sync.__doc__ or "").split("\n")[0] + "\n"
    for name in tillerman.sync.__all__:
        text += f"\n### sync.{name}\n\n{_described(name, getattr(tillerman.sync, name))}"
    return text


def _types() -> str:
    text = "\n## Other types\n\nTypes of fields, arguments and results, each with its module.\n\n"
    text += _table(["name", "stands for"], api_types.aliases())
    for name, made in api_types.structs().items():
        text += f"\n### {name}\n\n`{made.__module__}.{name}`\n\n{_described(name, made)}"
    return text


def _described(name: str, made: Any) -> str:
    if not isinstance(made, type):
        called = getattr(made, "__origin__", None)
        if called is not None or not callable(made):
            return "A union of all [events](events.md).\n"
        return f"```text\n{_signature(name, made)}\n```\n\n{_prose(made)}"
    if issubclass(made, dict):
        return "The [options](#options-of-start-and-resume), as a `TypedDict`.\n"
    documented = not (made.__doc__ or "").startswith(f"{made.__name__}(")
    text = _prose(made) if documented else ""
    if issubclass(made, msgspec.Struct | tuple) or hasattr(made, "__dataclass_fields__"):
        text += ("\n" if text else "") + _fields(made)
    rows = [[f"`{one}`", note] for one, note in _attributes(made) if note]
    rows += [
        [f"`{_signature(one, function)}`", _prose(function).replace("\n", " ")]
        for one, function in _methods(made)
    ]
    return text + ("\n" if text and rows else "") + (_table(["", ""], rows) if rows else "")


def _methods(made: type) -> Iterator[tuple[str, Any]]:
    offered = api_types.SERVICES.get(made.__name__)
    parts = [base for base in reversed(made.__mro__) if base is made or base.__name__[0] == "_"]
    for name, value in [pair for part in parts for pair in vars(part).items()]:
        if offered is not None and name not in offered:
            continue
        if not name.startswith("_") and inspect.isfunction(_function(value)):
            yield name, value


def _function(value: Any) -> Any:
    match value:
        case property(fget=function) | functools.cached_property(func=function):
            return function
    return value


def _signature(name: str, made: Any) -> str:
    if isinstance(made, property | functools.cached_property):
        return name
    signature = inspect.signature(made)
    shown = [_raw(one) for one in signature.parameters.values() if one.name not in INTERNAL]
    result = _Raw(str(signature.return_annotation))
    given = str(signature.replace(parameters=shown, return_annotation=result))
    if inspect.isasyncgenfunction(getattr(made, "__wrapped__", None)):
        given = given.replace("-> AsyncIterator[", "-> AsyncContextManager[")
    begins = "async " if inspect.iscoroutinefunction(made) else ""
    return f"{begins}{name}{given}"


class _Raw:
    """An annotation, shown without quotes and modules."""

    def __init__(self, text: str) -> None:
        self._text = re.sub(r"\btillerman(?:\.\w+)+\.(\w+)", r"\1", text)

    def __repr__(self) -> str:
        return self._text


def _raw(parameter: inspect.Parameter) -> inspect.Parameter:
    return parameter.replace(annotation=_Raw(str(parameter.annotation)))


def _options() -> str:
    rows = []
    for kind in (session_options.StartOptions, session_options.ResumeOptions):
        rows += _option_rows(kind)
    rows += _option_rows(session_options.CallbackOptions)
    return _table(["option", "value", ""], rows)


def _option_rows(kind: type) -> list[list[str]]:
    return [
        [f"`{name}`", session_options.OPTIONS[name].expected, note or ""]
        for name, _, _, note in _annotated(kind)
    ]


def _fields(kind: type, leave_out: tuple[str, ...] = ()) -> str:
    rows = [
        [f"`{name}`", f"`{annotation}`", f"`{default}`" if default else "", note]
        for name, annotation, default, note in _annotated(kind)
        if name not in leave_out and not name.startswith("_")
    ]
    return _table(["field", "type", "default", ""], rows) if rows else "It has no fields.\n"


def _annotated(kind: type) -> Iterator[tuple[str, str, str, str]]:
    """Name, annotation, default and comment of each field of a class."""
    source = textwrap.dedent(inspect.getsource(kind))
    for node in ast.parse(source).body[0].body:  # type: ignore[attr-defined]
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            default = _source(source, node.value) if node.value else ""
            annotation = _source(source, node.annotation)
            yield node.target.id, annotation, default, _comment(source, node)


def _source(source: str, node: ast.expr) -> str:
    """On one line."""
    text = " ".join((ast.get_source_segment(source, node) or "").split())
    return text.replace("[ ", "[").replace(", ]", "]")


def _attributes(kind: type) -> Iterator[tuple[str, str]]:
    """Name and comment of each public attribute that the constructor of a class sets."""
    source = textwrap.dedent(inspect.getsource(kind))
    for node in ast.walk(ast.parse(source)):
        match node:
            case (
                ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)])
                | ast.AnnAssign(target=ast.Attribute(value=ast.Name(id="self"), attr=name))
            ) if not name.startswith("_"):
                yield name, _comment(source, node)


def _comment(source: str, node: ast.stmt) -> str:
    found = _COMMENT.search(source.splitlines()[(node.end_lineno or node.lineno) - 1])
    return found[1] if found else ""


def _prose(made: Any) -> str:
    function = _function(made)
    return (inspect.cleandoc(function.__doc__) + "\n") if function.__doc__ else ""


# -- exit codes and errors -----------------------------------------------------------------------


def codes() -> str:
    rows = []
    by_code: dict[int, list[str]] = {0: ["completed"], errors.CANCELLED: ["cancelled"]}
    by_code[exit_codes.BROKEN_PIPE] = ["the reader of the output is gone"]
    for kind in get_args(FailureKind):
        code = code_of(Failure(kind=kind, message=""))
        by_code.setdefault(code, []).append(f"`{kind}`")
    for error in _tree():
        if error is errors.TurnFailed:
            continue  # it has the code of its kind
        by_code.setdefault(error.exit_code, []).append(f"`{error.__name__}`")
    rows = [[str(code), ", ".join(names)] for code, names in sorted(by_code.items())]
    return (
        f"# Exit codes\n{NOTE}\nNames in snake case are kinds of a failed turn, others are "
        "[errors](errors.md) of a command. [The command line](../cli.md#tillerman-run) explains "
        "the codes. `TurnFailed` has that of its kind.\n\n" + _table(["code", "meaning"], rows)
    )


def _tree(kind: type[TillermanError] = TillermanError) -> Iterator[type[TillermanError]]:
    yield kind
    for inner in kind.__subclasses__():
        if inner.__module__ == errors.__name__:
            yield from _tree(inner)


def error_page() -> str:
    tree = (errors.__doc__ or "").split("\n\n")[1]
    hints = _hints()
    text = f"# Errors\n{NOTE}\nEvery exception is one of these or of a class below one. They are "
    text += (
        "attributes of `tillerman`, and have `message`, `hint` (the next step) and `exit_code`. "
    )
    text += "With `--json` a command that fails prints "
    text += 'one line, `{"error": {"kind", "message", "hint", "exit_code"}}`.\n\n'
    text += f"```text\n{tree.strip()}\n```\n"
    for error in _tree():
        text += f"\n## {error.__name__}\n\nKind `{kind_of(error)}`, exit code {error.exit_code}.\n"
        if found := hints.get(error.__name__):
            text += "\n" + _table(["message", "next step"], sorted(found))
    return text + _failures()


def mock_scripts() -> str:
    """What the mock agent's scripts can contain, as the agent's own page has it."""
    heading, _, text = (
        (PACKAGE / "agents/mock/scripts/README.md").read_text("utf-8").partition("\n")
    )
    return f"{heading}\n{NOTE}{text}"


def _failures() -> str:
    """The kinds of a failed turn, with what the code says of each."""
    notes = dict(re.findall(r'^    "(\w+)",(?:  # (.*))?$', inspect.getsource(failure), re.M))
    rows = [
        [f"`{kind}`", str(code_of(Failure(kind=kind, message=""))), notes.get(kind, "")]
        for kind in get_args(FailureKind)
    ]
    text = "\n## Failed turns\n\nThe `kind` of the `failure` of a turn, and of `TurnFailed`. A "
    text += (
        "failure has a `hint` if there is a next step; [troubleshooting](../troubleshooting.md) "
    )
    return text + "goes through them.\n\n" + _table(["kind", "exit code", ""], rows)


def _hints() -> dict[str, list[list[str]]]:
    """Message and hint of every error that the code makes with a literal hint, by its class."""
    names = {error.__name__ for error in _tree()}
    found: dict[str, list[list[str]]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        module = ast.parse(path.read_text("utf-8"))
        for node in ast.walk(module):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in names:
                _note(found, node.func.id, node)  # type: ignore[attr-defined]
            if isinstance(node, ast.ClassDef) and node.name in names:
                for call in [one for one in ast.walk(node) if isinstance(one, ast.Call)]:
                    if isinstance(call.func, ast.Attribute) and call.func.attr == "__init__":
                        _note(found, node.name, call)
    return found


def _note(found: dict[str, list[list[str]]], name: str, call: ast.Call) -> None:
    hints = [word.value for word in call.keywords if word.arg == "hint"]
    texts = [text for one in call.args if " " in (text := _text(one))]
    hint = _text(hints[0]) if hints else ""
    if texts and " " in hint:
        row = [texts[-1], hint]
        if row not in found.setdefault(name, []):
            found[name].append(row)


def _text(node: ast.expr) -> str:
    """A literal text, with the parts that are known later in capitals."""
    match node:
        case ast.Constant(value=str() as text):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_text(part) for part in parts)
        case ast.FormattedValue(value=value):
            names = re.findall(r"[a-z]\w+", ast.unparse(value))
            return names[-1].strip("_").upper() if names else "…"
    return ""


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(map(_cell, line))} |\n" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").replace("<", "&lt;").split())
