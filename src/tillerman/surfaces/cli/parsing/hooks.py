"""Argument definitions of `hooks` and `hook`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from tillerman.surfaces.cli.parsing.arguments import command, folder, json_option, name


def hooks(commands: Any) -> None:
    hooks = folder(commands, "hooks", "apply your policy to the agents' own CLIs")
    install = command(
        hooks, "install", "hooks:install", "make an agent's CLI ask tillerman before each call"
    )
    _which(install, "one or more", "in this project (the default)")
    status = command(hooks, "status", "hooks:status", "list installed hooks and their owners")
    _which(status, "default: all agents with hooks", "in this project; default: both")
    json_option(status)
    remove = command(hooks, "remove", "hooks:remove", "remove the hooks and restore the files")
    _which(remove, "default: all agents with hooks", "in this project; default: both")


def hook(commands: Any) -> None:
    hook = command(
        commands, "hook", "hook:hook", "internal: decides one call for an installed hook"
    )
    hook.add_argument("agent", type=name, metavar="AGENT", help="agent whose CLI calls the hook")
    hook.add_argument(
        "event",
        type=name,
        metavar="EVENT",
        help="the agent's name of the event; details are read from stdin",
    )
    hook.add_argument("--project", type=Path, metavar="DIR", help="default: as reported by the CLI")


def _which(parser: argparse.ArgumentParser, agents: str, scope: str) -> None:
    parser.add_argument("agents", nargs="*", metavar="AGENT", help=agents)
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--project", dest="scope", action="store_const", const="project", help=scope)
    where.add_argument(
        "--user", dest="scope", action="store_const", const="user", help="in all projects"
    )
