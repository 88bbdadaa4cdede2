"""Reads the JSON settings and session files of agents."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from tillerman.agents.decoding.fields import Table, parse, text

_LONGEST = 4 * 1024 * 1024  # bytes of a line; a longer one holds nothing to show
_COMMENT = re.compile(rb'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)


def settings(file: Path) -> Table:
    """The object in the file; empty if the file is missing or is not JSON."""
    try:
        found = read(file.read_bytes())
    except OSError:
        return {}
    return found if isinstance(found, dict) else {}


def read(content: bytes) -> Table | str:
    """Parses settings that may contain comments; returns an error text if they are invalid."""
    found = parse(content)
    if isinstance(found, str) and b"/" in content:
        return parse(_COMMENT.sub(lambda match: match[1] or b" ", content))
    return found


def packaged_version(program: str) -> str | None:
    """Version of a CLI installed by npm, without running it; None if no package.json is found."""
    for folder in Path(program).resolve().parents[:4]:
        if version := text(settings(folder / "package.json"), "version"):
            return version
    return None


def records(file: Path, *, last: int | None = None) -> Iterator[Table]:
    """The objects in a JSON-lines file; none if it cannot be read.

    `last`: only those in that many bytes at the end of the file.
    """
    try:
        with file.open("rb") as lines:
            if last is not None and file.stat().st_size > last:
                lines.seek(-last, os.SEEK_END)
                lines.readline()  # skips a partial line
            for line in lines:
                if len(line) <= _LONGEST and isinstance(record := parse(line), dict):
                    yield record
    except OSError:
        return


def headline(prompt: str, limit: int = 80) -> str:
    """Makes a session title from the start of a prompt."""
    line = " ".join(prompt.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
