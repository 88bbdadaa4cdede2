"""Building blocks of the argument parser: command groups, common options, value types."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from tillerman.surfaces.cli.parsing.argparse_errors import SUMMARY, ArgumentParser
from tillerman.surfaces.cli.parsing.examples import epilog

HIDDEN = argparse.SUPPRESS
PRESETS = ("ask", "edits", "auto", "readonly", "none")
APPROVE = (
    "what runs without asking you. ask: reads; edits: also writes in the workspace; auto: "
    "everything that no guard denies. These never ask: readonly: only reads; none: nothing"
)

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
N = TypeVar("N", int, float)


@cache
def everywhere() -> ArgumentParser:
    """Options accepted before or after the command."""
    parser = ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    parser.add_argument(
        "--color", choices=("auto", "always", "never"), help="auto: on a terminal, without NO_COLOR"
    )
    parser.add_argument("--debug", action="store_true", help="write a log file, show tracebacks")
    return parser


def group(parser: argparse.ArgumentParser) -> Any:
    return parser.add_subparsers(
        title="commands", metavar="COMMAND", parser_class=ArgumentParser, prog=parser.prog
    )


def folder(commands: Any, name: str, help: str) -> Any:
    parser = commands.add_parser(
        name,
        help=help,
        description=_sentence(help),
        epilog=epilog(f"{commands._prog_prefix} {name}"),
        parents=[everywhere()],
    )
    parser.set_defaults(command=None, parser=parser)
    return group(parser)


def command(commands: Any, name: str, handler: str, help: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=help,
        description=_sentence(help),
        epilog=epilog(f"{commands._prog_prefix} {name}"),
        parents=[everywhere()],
    )
    parser.set_defaults(command=handler, parser=parser)
    return parser


def one_session(commands: Any, name: str, handler: str, help: str) -> argparse.ArgumentParser:
    parser = command(commands, name, handler, help)
    parser.add_argument("session", metavar="ID", help="session id, its first characters, or `last`")
    return parser


def json_option(
    parser: argparse.ArgumentParser, help: str = "JSON output", lines: bool = False
) -> None:
    parser.add_argument("--json", action="store_const", const="entries", help=help)
    if lines:
        parser.add_argument(
            SUMMARY, dest="json", action="store_const", const="summary", help=HIDDEN
        )


def limit_options(run: argparse.ArgumentParser) -> None:
    limits = run.add_argument_group("limits")
    limits.add_argument("--approve", choices=PRESETS, help=APPROVE)
    limits.add_argument(
        "--accept-advisory",
        action="store_true",
        help="run an agent that does not ask before every write or command",
    )
    limits.add_argument(
        "--max-turns", type=positive_int, metavar="N", help="maximum number of model calls"
    )
    limits.add_argument(
        "--max-cost", type=positive, metavar="USD", help="maximum cost in US dollars"
    )
    limits.add_argument(
        "--accept-unpriced",
        action="store_true",
        help="continue if no price is known and --max-cost cannot be enforced",
    )
    limits.add_argument(
        "--max-tokens", type=positive_int, metavar="N", help="maximum number of tokens"
    )
    limits.add_argument(
        "--timeout", type=seconds, metavar="SECONDS", help="time limit of a turn; also 10m or 2h"
    )
    limits.add_argument(
        "--request-timeout",
        type=seconds,
        metavar="SECONDS",
        help="deny unanswered requests after this time; default: 300 without a terminal, else 3600",
    )


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + "."


def name(text: str) -> str:
    """Rejects an empty name: it is an unset shell variable, not a request for the default."""
    if not text.strip():
        raise argparse.ArgumentTypeError("must not be empty")
    return text


def positive(text: str) -> float:
    number = _number(float, text)
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"must be greater than 0, not {text}")
    return number


def seconds(text: str) -> float:
    """A number of seconds, or a time with a unit, as in the config: `90`, `10m`, `2h`."""
    unit = text[-1:].lower()
    number, factor = (text[:-1], _UNITS[unit]) if unit in _UNITS else (text, 1)
    try:
        found = float(number) * factor
    except ValueError:
        raise argparse.ArgumentTypeError(f"not a time such as 90 or 10m: {text!r}") from None
    if not 0 < found < float("inf"):
        raise argparse.ArgumentTypeError(f"must be greater than 0, not {text}")
    return found


def positive_int(text: str) -> int:
    number = count(text)
    if not number:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {text}")
    return number


def count(text: str) -> int:
    number = _number(int, text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"must be at least 0, not {text}")
    if number >= 2**63:
        raise argparse.ArgumentTypeError(f"too large: {text}")
    return number


def port(text: str) -> int:
    number = count(text)
    if number > 65535:
        raise argparse.ArgumentTypeError(f"must be at most 65535, not {text}")
    return number


def client_name(text: str) -> str:
    """Validates a client name, which is also a file name."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", text):
        raise argparse.ArgumentTypeError(
            f"must consist of letters, digits, `.`, `_` and `-`, not {text!r}"
        )
    return text


def _number(kind: Callable[[str], N], text: str) -> N:
    try:
        return kind(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"not a number: {text!r}") from None
