"""An agent's own files, as far as agents keep them alike: settings and sessions in JSON."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from tillerman.agents.decoding.fields import Table, parse, text

_LONGEST = 4 * 1024 * 1024  # bytes of a line; a longer one holds nothing to show
_COMMENT = re.compile(rb'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)


def settings(file: Path) -> Table:
    """The object in it; none is told of a file that is not there or is no JSON."""
    try:
        found = read(file.read_bytes())
    except OSError:
        return {}
    return found if isinstance(found, dict) else {}


def read(content: bytes) -> Table | str:
    """Settings, in which people may write comments; what is wrong with them if they are none."""
    found = parse(content)
    if isinstance(found, str) and b"/" in content:
        return parse(_COMMENT.sub(lambda match: match[1] or b" ", content))
    return found


def packaged_version(program: str) -> str | None:
    """Of a CLI that npm installed, without running it; None where no package is above it."""
    for folder in Path(program).resolve().parents[:4]:
        if version := text(settings(folder / "package.json"), "version"):
            return version
    return None


def records(file: Path, *, last: int | None = None) -> Iterator[Table]:
    """The objects in it, line by line; a file that cannot be read has none. `last`: only those in
    so many bytes at its end."""
    try:
        with file.open("rb") as lines:
            if last is not None and file.stat().st_size > last:
                lines.seek(-last, os.SEEK_END)
                lines.readline()  # the rest of one
            for line in lines:
                if len(line) <= _LONGEST and isinstance(record := parse(line), dict):
                    yield record
    except OSError:
        return


def headline(prompt: str, limit: int = 80) -> str:
    """A session's title, made of the first words in it."""
    line = " ".join(prompt.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
