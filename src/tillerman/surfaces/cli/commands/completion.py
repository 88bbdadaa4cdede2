"""`tillerman completion SHELL`: generates shell completion scripts from the argument parser.

The scripts ask `completion SHELL --sessions` for the ids of this folder's sessions, and
`--pipelines` for the names of its pipelines.
"""

from __future__ import annotations

import argparse
import shlex
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tillerman.core.transcript.session_titles import displayed_title
from tillerman.surfaces.cli.parsing.argparse_errors import subcommands
from tillerman.surfaces.cli.parsing.pipelines import METAVAR as PIPELINE
from tillerman.surfaces.cli.views.output import emit
from tillerman.surfaces.rendering import formatting

if TYPE_CHECKING:
    from tillerman.store.session_row import SessionRow


class CommandNode(NamedTuple):
    """A node of the command tree, and the words that may follow it."""

    path: str  # "", "sessions", "sessions list"
    words: list[tuple[str, str]]  # with their help texts
    values: dict[str, list[str]]  # option -> choices
    files: list[str]  # options that take a path
    asked: dict[str, str]  # option -> flag that lists its values; "" is an argument


_MOST_SESSIONS = 50
_IN_A_SHELL = {"bash": "{id}", "zsh": "{id}:{title}", "fish": "{id}\t{title}"}


def completion(options: Namespace) -> int:
    from tillerman.surfaces.cli.parsing.parser import build

    if options.sessions:
        for row in _sessions():
            title = formatting.one_line(displayed_title(row.title, None, row.prompt), 60)
            emit(_IN_A_SHELL[options.shell].format(id=row.id, title=title))
        return 0
    if options.pipelines:
        for name, title in _pipelines():
            emit(_IN_A_SHELL[options.shell].format(id=name, title=formatting.one_line(title, 60)))
        return 0
    places = list(_places(build(), "", _agents()))
    emit({"bash": bash, "zsh": zsh, "fish": fish}[options.shell](places))
    return 0


def _agents() -> list[str]:
    from tillerman.agents import available
    from tillerman.config import load
    from tillerman.core.errors import TillermanError

    try:
        return list(available(load(Path.cwd()).agents))
    except TillermanError:  # must not print errors at shell startup
        return list(available())


def _sessions() -> Sequence[SessionRow]:
    """Sessions of this folder, newest first; none where the store cannot be read."""
    from tillerman.core.errors import TillermanError
    from tillerman.paths import find_paths
    from tillerman.store.catalog import Catalog
    from tillerman.store.database import Database

    try:
        database = Database.open_current(find_paths().store)
    except TillermanError:  # must not print errors while a line is typed
        return []
    try:
        return Catalog(database).list(cwd=str(Path.cwd()), limit=_MOST_SESSIONS)
    finally:
        database.close()


def _pipelines() -> list[tuple[str, str]]:
    """Names and descriptions of the pipelines that this folder sees, broken ones too."""
    from tillerman.config import load
    from tillerman.core.errors import TillermanError
    from tillerman.pipelines.library import Library

    try:
        listed = Library(load(Path.cwd()), Path.cwd(), checked=False).listed()
    except TillermanError:  # must not print errors while a line is typed
        return []
    return [(one.name, one.description or "cannot be run") for one in listed]


def _places(parser: argparse.ArgumentParser, path: str, names: list[str]) -> Iterator[CommandNode]:
    """Walks the parser tree. `names` are the known agents."""
    words: list[tuple[str, str]] = []
    values: dict[str, list[str]] = {}
    files: list[str] = []
    asked: dict[str, str] = {}
    for action in parser._actions:
        help = action.help or ""
        if help == argparse.SUPPRESS:
            continue
        if isinstance(action, argparse._SubParsersAction):
            words += [(one.dest, one.help or "") for one in action._choices_actions]
        elif action.choices and not action.option_strings:
            words += [(str(choice), help) for choice in action.choices]
        elif action.metavar == "AGENT":
            words += [(name, help) for name in names]
        words += [(word, help) for word in action.option_strings]
        if action.metavar in ("ID", "SESSION") and action.dest in ("session", "resume"):
            asked |= dict.fromkeys(action.option_strings or [""], "--sessions")
        elif action.metavar == PIPELINE:
            asked |= dict.fromkeys(action.option_strings or [""], "--pipelines")
        for word in action.option_strings:
            if action.choices:
                values[word] = [str(choice) for choice in action.choices]
            elif action.dest == "agent":
                values[word] = names
            elif action.type is Path:
                files.append(word)
    yield CommandNode(path, words, values, files, asked)
    for name, below in subcommands(parser).items():
        yield from _places(below, f"{path} {name}".strip(), names)


def _steps(places: list[CommandNode]) -> Iterator[tuple[str, str]]:
    """Yields `parent/word` keys and the path of the node each leads to."""
    for place in places:
        if place.path:
            parent, _, name = place.path.rpartition(" ")
            yield f"{parent}/{name}", place.path


def _find_place(places: list[CommandNode], words: str) -> str:
    cases = [_case(step, f"place={shlex.quote(path)}") for step, path in _steps(places)]
    return "\n".join(
        [f"  for word in {words}; do", '  case "$place/$word" in', *cases, "  esac; done"]
    )


def _case(pattern: str, action: str, more: str = "") -> str:
    return f"    {shlex.quote(pattern)}{more}) {action} ;;"


def bash(places: list[CommandNode]) -> str:
    files = 'COMPREPLY=($(compgen -f -- "$cur")); return'
    ids = '$("${COMP_WORDS[0]}" completion bash %s 2>/dev/null)'
    cases = []
    for path, words, values, paths, asked in places:
        for option, choices in values.items():
            cases.append(_case(f"{path}/{option}", f"words={shlex.quote(' '.join(choices))}"))
        cases += [_case(f"{path}/{option}", files) for option in paths]
        cases += [
            _case(f"{path}/{option}", f"words={ids % flag}")
            for option, flag in asked.items()
            if option
        ]
        names = shlex.quote(" ".join(word for word, _ in words))
        more = f'" {ids % asked[""]}"' if "" in asked else ""
        cases.append(_case(f"{path}/", f"words={names}{more}", "*"))
    return "\n".join(
        [
            "# bash completion for tillerman:  source <(tillerman completion bash)",
            "_tillerman() {",
            '  local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}"',
            "  local place= word words=",
            "  COMPREPLY=()",
            _find_place(places, '"${COMP_WORDS[@]:1:COMP_CWORD-1}"'),
            '  case "$place/$prev" in',
            *cases,
            "  esac",
            '  COMPREPLY=($(compgen -W "$words" -- "$cur"))',
            "}",
            "complete -o default -F _tillerman tillerman",
        ]
    )


def zsh(places: list[CommandNode]) -> str:
    ids = '${(f)"$($words[1] completion zsh %s 2>/dev/null)"}'
    cases = []
    for path, words, values, paths, asked in places:
        for option, choices in values.items():
            cases.append(_case(f"{path}/{option}", f"compadd -- {shlex.join(choices)}; return"))
        cases += [_case(f"{path}/{option}", "_files; return") for option in paths]
        cases += [
            _case(f"{path}/{option}", f"here=({ids % flag})")
            for option, flag in asked.items()
            if option
        ]
        names = shlex.join(f"{word}:{help}" for word, help in words)
        more = f" {ids % asked['']}" if "" in asked else ""
        cases.append(_case(f"{path}/", f"here=({names}{more})", "*"))
    return "\n".join(
        [
            "#compdef tillerman",
            "# zsh completion for tillerman:  source <(tillerman completion zsh)",
            "_tillerman() {",
            '  local place= word prev="${words[CURRENT-1]}"',
            "  local -a here",
            _find_place(places, '"${(@)words[2,CURRENT-1]}"'),
            '  case "$place/$prev" in',
            *cases,
            "  esac",
            "  _describe tillerman here || _files",
            "}",
            "(( $+functions[compdef] )) && compdef _tillerman tillerman",
        ]
    )


def fish(places: list[CommandNode]) -> str:
    cases = [
        f"        case {shlex.quote(step)}; set place {shlex.quote(path)}"
        for step, path in _steps(places)
    ]
    head = [
        "# fish completion for tillerman:  tillerman completion fish | source",
        "function __tillerman_at",
        "    set -l place ''",
        "    for word in (commandline -opc)[2..-1]",
        '        switch "$place/$word"',
        *cases,
        "        end",
        "    end",
        '    test "$place" = "$argv"',
        "end",
        "complete -c tillerman -f",
    ]
    lines = [_fish_line(place, *word) for place in places for word in place.words]
    lines += [
        shlex.join(["complete", "-c", "tillerman", "-n", _fish_at(place), "-a", _FISH_IDS % flag])
        for place in places
        for option, flag in place.asked.items()
        if not option
    ]
    return "\n".join(head + lines)


_FISH_IDS = "(tillerman completion fish %s 2>/dev/null)"


def _fish_at(place: CommandNode) -> str:
    return f"__tillerman_at {place.path}".strip()


def _fish_line(place: CommandNode, word: str, help: str) -> str:
    kind = {2: "-l", 1: "-s", 0: "-a"}[len(word) - len(word.lstrip("-"))]
    line = [
        "complete",
        "-c",
        "tillerman",
        "-n",
        _fish_at(place),
        kind,
        word.lstrip("-"),
        "-d",
        help,
    ]
    if word in place.values:
        line += ["-xa", " ".join(place.values[word])]
    elif word in place.asked:
        line += ["-xa", _FISH_IDS % place.asked[word]]
    elif word in place.files:
        line += ["-rF"]
    return shlex.join(line)
