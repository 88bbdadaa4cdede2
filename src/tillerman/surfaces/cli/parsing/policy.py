"""Argument definitions of `policy`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tillerman.surfaces.cli.parsing.arguments import PRESETS, command, folder, json_option, name

MODES = ("agent", "plan", "ask")


def policy(commands: Any) -> None:
    group = folder(commands, "policy", "check, explain and test the rules for agents")
    check = command(group, "check", "policy:check", "validate a file of rules")
    check.add_argument(
        "file", nargs="?", type=Path, metavar="FILE", help="default: the rules that apply here"
    )
    json_option(check)
    explain = command(
        group, "explain", "policy:explain", "show the decision on a call and the reason"
    )
    explain.usage = "tillerman policy explain [options] [--] COMMAND | TOOL [INPUT]"
    explain.add_argument(
        "tool",
        type=name,
        metavar="TOOL",
        help="Bash, Write, mcp__SERVER__TOOL …, or a command line",
    )
    explain.add_argument(
        "input", nargs="?", metavar="INPUT", help="JSON; for Bash, a command line; `-`: stdin"
    )
    explain.add_argument(
        "-a", "--agent", type=name, metavar="NAME", help="agent that makes the call"
    )
    explain.add_argument("--mode", choices=MODES, default="agent", help="default: agent")
    explain.add_argument("--approve", choices=PRESETS, help="default: the config's")
    explain.add_argument(
        "-C", "--cwd", type=Path, default=Path(), metavar="DIR", help="workspace of the call"
    )
    explain.add_argument(
        "-v", "--verbose", action="store_true", help="also show the rules that did not match"
    )
    json_option(explain)
    test = command(group, "test", "policy:test", "test a file of calls with expected decisions")
    test.add_argument("file", type=Path, metavar="CASES", help="format: see docs/policy.md")
    json_option(test)
