"""Repairs the standard streams at program start, and checks for an interactive terminal."""

from __future__ import annotations

import io
import os
import sys


def replace_closed_streams() -> None:
    """Opens closed standard streams on /dev/null and replaces unencodable characters with `?`.

    Otherwise the next opened files would get their descriptors, and printing would write to the
    store.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free descriptor
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w" if number else "r", closefd=False))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def terminal() -> bool:
    """True if all standard streams are a terminal that supports cursor control."""
    streams = (sys.stdin, sys.stdout, sys.stderr)
    try:
        seen = all(stream is not None and stream.isatty() for stream in streams)
    except ValueError:  # closed
        return False
    return seen and os.environ.get("TERM", "dumb") != "dumb"
