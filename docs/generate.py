"""Writes what the documents say of the code: the turn, the tree and the events in ARCHITECTURE.md,
the settings in docs/cli.md, slash commands and keys in docs/terminal.md, the pages about agents,
docs/reference/, core/agent_files.py and config/model_table.toml.

`python docs/generate.py` writes, `--check` says what has drifted and fails.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import get_args

import msgspec
from agent_files import module
from agent_pages import pages
from model_table import table
from reference_pages import reference

from tillerman.config.settings import SETTINGS
from tillerman.core.events import Event
from tillerman.sessions.runner.turn_state import TRANSITIONS, TurnAction, TurnState
from tillerman.surfaces.tui.commands import COMMANDS
from tillerman.surfaces.tui.keys import keymap
from tillerman.surfaces.tui.keys.focus_scopes import PLACES

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src/tillerman"
PARTS = re.compile(r"(<!-- (\w+): generated -->\n).*?(<!-- end -->)", re.DOTALL)


def tree() -> str:
    """Packages and what lies at the top, with the first line of what they say about themselves."""
    lines = [f"{'src/tillerman/':<26}{_says(PACKAGE / '__init__.py')}"]
    for path in sorted(PACKAGE.iterdir(), key=lambda path: (path.is_dir(), path.name)):
        if path.suffix == ".py" and not path.name.startswith("__init__"):
            lines.append(_line(path, 1))
        elif _is_package(path):
            lines.append(_line(path, 1))
            lines += [_line(inner, 2) for inner in sorted(path.iterdir()) if _is_package(inner)]
    return "```text\n" + "\n".join(line.rstrip() for line in lines) + "\n```\n"


def events() -> str:
    rows = ["| event | fields |", "| --- | --- |"]
    for kind in get_args(Event):
        names = [field.name for field in msgspec.structs.fields(kind) if field.name != "parent"]
        tag = kind.__struct_config__.tag
        rows.append(f"| `{tag}` | {', '.join(names)} |")
    return "\n".join(rows) + "\n"


def turn() -> str:
    """What each input does in each state of a turn, and the state that follows if it changes."""
    states = list(TurnState)
    rows = ["| | " + " | ".join(state.value for state in states) + " |", "| --- " * 5 + "|"]
    for input, cells in TRANSITIONS.items():
        shown = [_cell(state, *cell) for state, cell in zip(states, cells, strict=True)]
        rows.append(f"| {input.value} | {' | '.join(shown)} |")
    return "\n".join(rows) + "\n"


def _cell(state: TurnState, action: TurnAction, following: TurnState) -> str:
    if following is state:
        return action.value
    named = "" if action is TurnAction.NOTHING else f"{action.value} "
    return f"{named}→ *{following.value}*"


def settings() -> str:
    rows = ["| key | default | |", "| --- | --- | --- |"]
    rows += [
        f"| `{one.key}` | {one.kind.show(one.default)} | {one.help} |" for one in SETTINGS.values()
    ]
    return "\n".join(rows) + "\n"


def commands() -> str:
    rows = ["| command | |", "| --- | --- |"]
    for one in COMMANDS.values():
        typed = f"{one.name} {one.argument}".strip().replace("|", "\\|")
        rows.append(f"| `{typed}` | {one.help} |")
    return "\n".join(rows) + "\n"


def keys() -> str:
    rows = [
        f"| `{binding.id}` | `{binding.key}` | {binding.description} |"
        for binding in keymap.bindings(PLACES)
    ]
    return "\n".join(["| name | key | |", "| --- | --- | --- |", *rows]) + "\n"


def _is_package(path: Path) -> bool:
    return (path / "__init__.py").exists()


def _line(path: Path, depth: int) -> str:
    name = "  " * depth + path.name + ("/" if path.is_dir() else "")
    return f"{name:<26}{_says(path / '__init__.py' if path.is_dir() else path)}"


def _says(path: Path) -> str:
    words = ast.get_docstring(ast.parse(path.read_text())) or ""
    return words.split("\n")[0]


def parts() -> dict[Path, str]:
    """The documents that are written by hand, with what is generated in them."""
    made = {"tree": tree(), "events": events(), "settings": settings(), "commands": commands()}
    made |= {"keys": keys(), "turn": turn()}
    return {
        document: PARTS.sub(lambda part: part[1] + made[part[2]] + part[3], document.read_text())
        for document in (ROOT / "ARCHITECTURE.md", ROOT / "docs/cli.md", ROOT / "docs/terminal.md")
    }


def main() -> int:
    drifted = []
    for path, text in {**module(), **table(), **parts(), **pages(), **reference()}.items():
        if path.exists() and path.read_text("utf-8") == text:
            continue
        drifted.append(path)
        if "--check" not in sys.argv:
            path.write_text(text, "utf-8")
    if drifted and "--check" in sys.argv:
        names = ", ".join(str(path.relative_to(ROOT)) for path in drifted)
        print(f"{names} drifted from the code: run `make docs`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
