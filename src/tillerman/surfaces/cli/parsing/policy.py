"""Argument definitions of `policy`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tillerman.surfaces.cli.parsing.arguments import PRESETS, command, folder, json_option, name

MODES = ("agent", "plan", "ask")


def policy(commands: Any) -> None:
    group = folder(commands, "policy", "check, explain and test the rules for agents")
    check = command(group, "check", "policy:check", "read a file of rules, and say what is wrong")
    check.add_argument(
        "file", nargs="?", type=Path, metavar="FILE", help="default: the rules that count here"
    )
    json_option(check)
    explain = command(group, "explain", "policy:explain", "what is decided of a call, and why")
    explain.usage = "tillerman policy explain [options] [--] COMMAND | TOOL [INPUT]"
    explain.add_argument(
        "tool",
        type=name,
        metavar="TOOL",
        help="Bash, Write, mcp__SERVER__TOOL …, or a whole command line",
    )
    explain.add_argument(
        "input", nargs="?", metavar="INPUT", help="JSON; for Bash, a command line; `-`: stdin"
    )
    explain.add_argument("-a", "--agent", type=name, metavar="NAME", help="who would ask")
    explain.add_argument("--mode", choices=MODES, default="agent", help="default: agent")
    explain.add_argument("--approve", choices=PRESETS, help="default: the config's")
    explain.add_argument(
        "-C", "--cwd", type=Path, default=Path(), metavar="DIR", help="where it would work"
    )
    explain.add_argument(
        "-v", "--verbose", action="store_true", help="the rules that were passed over, too"
    )
    json_option(explain)
    test = command(group, "test", "policy:test", "run a file of calls with what is expected")
    test.add_argument("file", type=Path, metavar="CASES", help="docs/policy.md tells its form")
    json_option(test)
