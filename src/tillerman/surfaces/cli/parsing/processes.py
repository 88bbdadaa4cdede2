"""Argument definitions of `ps`, `logs` and `kill`."""

from __future__ import annotations

import argparse
import signal
from typing import Any

from tillerman.surfaces.cli.parsing.arguments import command, count, json_option, name


def processes(commands: Any) -> None:
    ps = command(commands, "ps", "processes:ps", "list the commands that agents are running")
    ps.add_argument("--all", action="store_true", help="include ended ones (stored for a day)")
    ps.add_argument("--session", type=name, metavar="ID", help="only this session")
    json_option(ps)
    logs = _one_process(commands, "logs", "processes:logs", "show the output of a command")
    logs.add_argument(
        "-f", "--follow", action="store_true", help="follow the output until the command ends"
    )
    which = logs.add_mutually_exclusive_group()
    which.add_argument("--stdout", action="store_true", help="only stdout")
    which.add_argument("--stderr", action="store_true", help="only stderr")
    logs.add_argument(
        "-n", "--lines", type=count, metavar="N", help="last lines of each; default: all"
    )
    kill = _one_process(
        commands, "kill", "processes:kill", "stop a command and everything it started"
    )
    kill.add_argument("--signal", type=_signal, metavar="NAME", help="send only this signal")


def _one_process(commands: Any, word: str, handler: str, help: str) -> argparse.ArgumentParser:
    parser = command(commands, word, handler, help)
    parser.add_argument(
        "process", type=name, metavar="PROCESS", help="process id, or its first characters"
    )
    return parser


def _signal(text: str) -> signal.Signals:
    """Parses a signal by name, with or without SIG, or by number."""
    try:
        if text.isdecimal():
            return signal.Signals(int(text))
        return signal.Signals[f"SIG{text.upper().removeprefix('SIG')}"]
    except (KeyError, ValueError):
        raise argparse.ArgumentTypeError(
            f"unknown signal {text!r}: use TERM, INT, HUP, …"
        ) from None
