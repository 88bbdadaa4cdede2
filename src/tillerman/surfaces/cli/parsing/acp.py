"""Argument definitions of `acp`, tillerman inside an editor."""

from __future__ import annotations

from typing import Any

from tillerman.surfaces.cli.parsing.arguments import command, limit_options, name


def acp(commands: Any) -> None:
    editor = command(
        commands,
        "acp",
        "acp:serve",
        "serve an editor that speaks ACP, on standard input and output",
    )
    editor.add_argument(
        "-a", "--agent", type=name, metavar="NAME", help="agent, profile, or several: one,two"
    )
    editor.add_argument("-m", "--model", type=name, metavar="NAME", help="model to use")
    editor.add_argument("--effort", metavar="LEVEL", help="reasoning effort")
    editor.add_argument(
        "--mode", choices=("agent", "plan", "ask"), help="plan and ask are read-only"
    )
    editor.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="NAME[=VALUE]",
        help="environment variable of the agent",
    )
    editor.add_argument(
        "--workspace-tools",
        action="store_true",
        help="add tillerman's tools: files and background processes",
    )
    editor.add_argument(
        "--login",
        type=name,
        metavar="NAME",
        help="sign in to this agent instead; editors start it in a terminal",
    )
    limit_options(editor)
