"""Argument definitions of `repo`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tillerman.surfaces.cli.parsing.arguments import (
    command,
    folder,
    json_option,
    limit_options,
    name,
)


def repo(commands: Any) -> None:
    group = folder(commands, "repo", "status of this branch on its way to a merge")
    status = command(group, "status", "repo:status", "show the branch's status and next step")
    _where(status)
    json_option(status)
    action = command(group, "action", "repo:action", "take the next step")
    _where(action)
    action.add_argument("-y", "--yes", action="store_true", help="run commands without asking")
    agent = action.add_argument_group("agent for steps that need one")
    agent.add_argument(
        "-a", "--agent", type=name, metavar="NAME", help="agent, profile, or several: one,two"
    )
    agent.add_argument("-m", "--model", type=name, metavar="NAME", help="model to use")
    limit_options(action)
    json_option(action, "one session entry per line; --json=summary: a condensed view", lines=True)


def _where(parser: Any) -> None:
    parser.add_argument("-C", "--cwd", type=Path, default=Path(), metavar="DIR", help="run in DIR")
