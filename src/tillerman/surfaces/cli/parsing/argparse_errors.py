"""Extends argparse: one-line errors, suggestions, and options with optional values."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NoReturn

from tillerman.core.errors import UsageError
from tillerman.surfaces.did_you_mean import suggestion

SUMMARY = "--json-summary"  # internal spelling of `--json=summary` for argparse

_FEW = 12  # commands that fit into a hint
_SYNONYMS = {"ls": "list", "rm": "delete"}

# The next argument is the option's value only if it matches this pattern; else it is the prompt.
_OPTIONAL = {
    "--resume": (re.compile(r"[\w-]+"), "last"),
    "--worktree": (re.compile(r"[\w./-]+"), ""),
}


class ArgumentParser(argparse.ArgumentParser):
    """Reports errors in one line with a suggestion."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("formatter_class", _Help)
        super().__init__(*args, **{**kwargs, "allow_abbrev": False})

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, hint=f"`{self.prog} --help` shows the usage")

    def _print_message(self, message: str, file: Any = None) -> None:
        """Raises on write errors; argparse would ignore them and exit with 0."""
        if message:
            (file or sys.stderr).write(message)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        known = [str(choice) for choice in action.choices]
        what = "command" if isinstance(action, argparse._SubParsersAction) else "value"
        if action.option_strings:
            what = f"value for {action.option_strings[-1]}"
        hint = suggestion(str(value), known)
        if isinstance(action, argparse._SubParsersAction):
            hint = _meant_command(self.prog, str(value), action.choices)
        raise UsageError(f"unknown {what} {value!r}", hint=hint)


class _Help(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30, width=_columns() - 2)

    def _format_action(self, action: argparse.Action) -> str:
        text = super()._format_action(action)
        if isinstance(action, argparse._SubParsersAction):
            text = "".join(text.splitlines(keepends=True)[1:])  # drops the `{run,…}` line
        return text


def _columns() -> int:
    """Terminal width without `shutil`, whose import loads three compression modules.

    argparse creates a formatter for every option.
    """
    if (asked := os.environ.get("COLUMNS", "")).isdecimal() and int(asked):
        return int(asked)
    try:
        return os.get_terminal_size(1).columns or 80
    except (OSError, ValueError):
        return 80


def parse(parser: ArgumentParser, words: Sequence[str]) -> argparse.Namespace:
    words, rest = _cut(words)
    _check_options_before_commands(parser, words)
    options, unknown = parser.parse_known_args(list(_spelled_out(words)))
    if unknown and not unknown[0].startswith("-") and getattr(options, "words", "") is None:
        options.words = unknown.pop(0)  # argparse rejects it after an option
    if unknown:
        _refuse(getattr(options, "parser", parser), unknown[0])
    if rest:
        options.words = [*options.words, *rest]
    return options


def _cut(words: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Splits `mcp add NAME --env X -- COMMAND` at `--`, which argparse cannot do after options."""
    if list(words[:2]) != ["mcp", "add"] or "--" not in words:
        return words, ()
    end = words.index("--")
    return words[:end], words[end + 1 :]


def _meant_command(prog: str, word: str, commands: Mapping[str, argparse.ArgumentParser]) -> str:
    """Suggests a subcommand of this name (`list`), a similar command, or an option (`resume`)."""
    name = _SYNONYMS.get(word, word)
    subs = [f"`{prog} {one} {name}`" for one, sub in commands.items() if name in subcommands(sub)]
    if not subs and (near := suggestion(word, commands, " ")) != " ":
        return near
    found = [
        f"`{prog} {one} --{word}`"
        for one, sub in commands.items()
        if f"--{word}" in option_strings(sub)
    ] + subs
    if found:
        return f"did you mean {' or '.join(found[:3])}?"
    many = f"`{prog} --help` lists the commands"
    return suggestion(word, commands, many if len(commands) > _FEW else "")


def option_strings(parser: argparse.ArgumentParser) -> list[str]:
    return [word for action in parser._actions for word in action.option_strings]


def subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _refuse(
    parser: argparse.ArgumentParser,
    word: str,
    commands: Mapping[str, argparse.ArgumentParser] = MappingProxyType({}),
) -> NoReturn:
    if word.startswith("-"):
        name = word.partition("=")[0]
        having = [one for one, sub in commands.items() if name in option_strings(sub)]
        if having:
            command = f"{parser.prog} {having[0]} {name}"
            hint = f"options of a command follow its name: `{command}`"
        else:
            otherwise = f"`{parser.prog} --help` lists the options"
            hint = suggestion(name, option_strings(parser), otherwise)
        raise UsageError(f"{parser.prog} has no option {name}", hint=hint)
    raise UsageError(
        f"{parser.prog}: unexpected argument: {word!r}",
        hint="put quotes around text with spaces",
    )


def _check_options_before_commands(parser: argparse.ArgumentParser, words: Sequence[str]) -> None:
    """Rejects unknown options early: argparse would treat their values as commands."""
    rest = iter(words)
    while commands := subcommands(parser):
        word = next(rest, "--")
        name, equals, _ = word.partition("=")
        if word in commands:
            parser = commands[word]
        elif word in ("-", "--") or not word.startswith("-"):
            return
        elif (action := parser._option_string_actions.get(name)) is None:
            _refuse(parser, word, commands)
        elif action.nargs is None and not equals:
            next(rest, None)


def _spelled_out(words: Sequence[str]) -> Iterator[str]:
    """Keeps options with an optional value from consuming the prompt that follows them."""
    for place, word in enumerate(words):
        if word == "--":
            yield from words[place:]
            return
        if word.startswith("--json="):
            yield _view(word.removeprefix("--json="))
        elif word in _OPTIONAL:
            looks, alone = _OPTIONAL[word]
            value = words[place + 1] if place + 1 < len(words) else "-"
            taken = not value.startswith("-") and looks.fullmatch(value)
            yield word if taken else f"{word}={alone}"
        else:
            yield word


def _view(name: str) -> str:
    match name:
        case "entries":
            return "--json"
        case "summary":
            return SUMMARY
    hint = suggestion(name, ["entries", "summary"])
    raise UsageError(f"--json has no view {name!r}", hint=hint)
