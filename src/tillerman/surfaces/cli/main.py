"""CLI entry point: parses arguments, runs the command, reports errors, returns the exit code."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from tillerman.core.errors import CANCELLED, TillermanError, UsageError
from tillerman.surfaces.cli.parsing.argparse_errors import option_strings, parse, subcommands
from tillerman.surfaces.cli.parsing.parser import build
from tillerman.surfaces.cli.preconditions import check_arguments, check_current_folder
from tillerman.surfaces.cli.views.error_report import complain, report, report_failure
from tillerman.surfaces.cli.views.std_streams import terminal
from tillerman.surfaces.exit_codes import BROKEN_PIPE

if TYPE_CHECKING:
    from tillerman.sessions.prestart import Prestart


_ANYWHERE = ("hook", "schema")  # commands that need no current folder


def main(words: list[str], head: Prestart | None = None) -> int:
    """Runs the CLI. `head` is a warden process that was started early for `run`."""
    try:
        code = _guarded(words, head)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        _forget_output()
        return BROKEN_PIPE
    except OSError as error:  # the final flush failed
        return _lost_output(error)


def _guarded(words: list[str], head: Prestart | None) -> int:
    debug = "--debug" in words
    if words[:1] == ["help"]:
        words = [*words[1:], "--help"]
    if terminal() and _names_no_command(words):
        words = ["tui", *words]
    try:
        check_arguments(words)
        options = parse(build(words[0] if words else ""), words)
        options.color = getattr(options, "color", None)
        options.debug = getattr(options, "debug", False)
        options.head = head
        return _run(options)
    except TillermanError as error:
        if debug and not isinstance(error, UsageError):
            _traceback()
        return report(words, error)
    except KeyboardInterrupt:
        return CANCELLED
    except BrokenPipeError:
        raise
    except SystemExit as leaving:  # raised by argparse after --help
        return int(leaving.code or 0)
    except Exception as error:
        from tillerman.surfaces.machine_errors import INTERNAL, NO_ROOM, SYSTEM, machine_error

        if isinstance(error, OSError) and error.filename is None and error.errno in NO_ROOM:
            raise
        if debug:
            _traceback()
        if reported := machine_error(error):
            return report_failure(words, SYSTEM, *reported)
        hint = "" if debug else "this is a bug in tillerman: `--debug` shows the traceback"
        return report_failure(words, INTERNAL, f"{type(error).__name__}: {error}", hint)


def _names_no_command(words: list[str]) -> bool:
    """True for no words at all, and for options of the terminal interface: `-a mock`."""
    if not words or not words[0].startswith("-"):
        return not words
    parser = build("tui")
    options = set(option_strings(subcommands(parser)["tui"])) - set(option_strings(parser))
    return words[0].partition("=")[0] in options


def _lost_output(error: OSError) -> int:
    _forget_output()
    complain(f"the output could not be written: {error.strerror or error}")
    return 1


def _run(options: Namespace) -> int:
    if getattr(options, "version", False):
        from tillerman._version import __version__

        sys.stdout.write(f"tillerman {__version__}\n")
        return 0
    if options.command is None:
        options.parser.print_help()
        return 0
    module, _, name = options.command.partition(":")
    if module not in _ANYWHERE:
        check_current_folder()
    if options.debug:
        from tillerman.surfaces.cli.debug_log import start

        start(getattr(options, "env", None) or ())
    command: Callable[[Namespace], int] = getattr(
        import_module(f"tillerman.surfaces.cli.commands.{module}"), name
    )
    return command(options)


def _traceback() -> None:
    import logging
    import traceback

    logging.getLogger("tillerman").debug("command failed", exc_info=True)
    traceback.print_exc()


def _forget_output() -> None:
    """Redirects stdout to /dev/null, since Python flushes it again at exit and would fail again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
