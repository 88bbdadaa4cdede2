"""Checks before a command runs: UTF-8 arguments, home folder, current folder, streams."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from tillerman.core.errors import TillermanError, UsageError


def check_arguments(words: Sequence[str]) -> None:
    for place, word in enumerate(words, start=1):
        try:
            word.encode()
        except UnicodeEncodeError:  # Python decodes invalid bytes to lone surrogates
            shown = os.fsencode(word).decode("utf-8", "backslashreplace")
            raise UsageError(
                f"argument {place} is not UTF-8: {shown}",
                hint="only UTF-8 is supported: rename the file, or convert the text with iconv",
            ) from None


def check_current_folder() -> None:
    try:
        Path.cwd()
    except FileNotFoundError:
        raise UsageError(
            "the current folder no longer exists", hint="`cd` to an existing folder"
        ) from None
    except OSError as error:
        raise UsageError(
            f"the current folder cannot be used: {error.strerror}", hint="`cd` to another folder"
        ) from None


def need_client(hint: str) -> None:
    """Requires a pipe, socket or terminal on stdin and stdout, since a client must be connected.

    Streams that were closed at program start have been replaced with /dev/null.
    """
    for number, name in ((0, "input"), (1, "output")):
        mode = os.fstat(number).st_mode
        if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(number)):
            raise UsageError(
                f"standard {name} is neither a pipe nor a terminal: no client can be connected",
                hint=hint,
            )


def satisfied(words: Sequence[str]) -> bool:
    """Whether an agent process may be started early, before the command checks again."""
    from tillerman.paths import find_paths

    try:
        check_arguments(words)
        check_current_folder()
        find_paths()
    except TillermanError:
        return False
    return True
