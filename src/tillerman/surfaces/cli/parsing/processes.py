"""Argument definitions of `ps`, `logs` and `kill`."""

from __future__ import annotations

import argparse
import signal
from typing import Any

from tillerman.surfaces.cli.parsing.arguments import command, count, json_option, name


def processes(commands: Any) -> None:
    ps = command(commands, "ps", "processes:ps", "list the commands that agents are running")
    ps.add_argument("--all", action="store_true", help="ended ones too; they are kept for a day")
    ps.add_argument("--session", type=name, metavar="ID", help="of this session")
    json_option(ps)
    logs = _one_process(commands, "logs", "processes:logs", "show the output of a command")
    logs.add_argument(
        "-f", "--follow", action="store_true", help="and what it writes until it ends"
    )
    which = logs.add_mutually_exclusive_group()
    which.add_argument("--stdout", action="store_true", help="its output alone")
    which.add_argument("--stderr", action="store_true", help="its errors alone")
    logs.add_argument(
        "-n", "--lines", type=count, metavar="N", help="the last of each; default: all"
    )
    kill = _one_process(
        commands, "kill", "processes:kill", "stop a command and everything it started"
    )
    kill.add_argument(
        "--signal", type=_signal, metavar="NAME", help="tell it this, and leave the rest to it"
    )


def _one_process(commands: Any, word: str, handler: str, help: str) -> argparse.ArgumentParser:
    parser = command(commands, word, handler, help)
    parser.add_argument("process", type=name, metavar="PROCESS", help="its id, or its beginning")
    return parser


def _signal(text: str) -> signal.Signals:
    """Parses a signal by name, with or without SIG, or by number."""
    try:
        if text.isdecimal():
            return signal.Signals(int(text))
        return signal.Signals[f"SIG{text.upper().removeprefix('SIG')}"]
    except (KeyError, ValueError):
        raise argparse.ArgumentTypeError(f"no signal is called {text!r}: TERM, INT, HUP…") from None
