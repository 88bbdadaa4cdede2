"""Standard streams that can be relied upon, whatever they were when the program began."""

from __future__ import annotations

import io
import os
import sys


def mend_streams() -> None:
    """Standard streams that are closed lead nowhere, and a character that has no code is a `?`.

    Left closed, their numbers would go to the next files opened: printing would write to the store.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w" if number else "r", closefd=False))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def terminal() -> bool:
    """Somebody sits in front of one that can show more than lines."""
    streams = (sys.stdin, sys.stdout, sys.stderr)
    try:
        seen = all(stream is not None and stream.isatty() for stream in streams)
    except ValueError:  # closed
        return False
    return seen and os.environ.get("TERM", "dumb") != "dumb"
