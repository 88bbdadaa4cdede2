"""Argument definitions of `tui`, the terminal interface."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tillerman.surfaces.cli.parsing.arguments import command, limit_options, name


def tui(commands: Any) -> None:
    screen = command(commands, "tui", "tui:open_screen", "the terminal interface (also: tillerman)")
    screen.add_argument("session", nargs="?", metavar="SESSION", help="session to open, or `last`")
    screen.add_argument(
        "-a", "--agent", type=name, metavar="NAME", help="agent, profile, or several: one,two"
    )
    screen.add_argument("-m", "--model", type=name, metavar="NAME", help="model to use")
    screen.add_argument("-C", "--cwd", type=Path, default=Path(), metavar="DIR", help="run in DIR")
    limit_options(screen)
