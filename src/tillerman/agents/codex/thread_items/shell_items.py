"""Decodes shell commands in Codex's items: the command line and the output so far."""

from __future__ import annotations

import re
import shlex

from tillerman.agents.decoding.fields import Table, text
from tillerman.core.events import Cut, Text

SHOWN = 2000  # characters of a running command's output
LONGEST = 64 * 1024  # characters of a command line that is parsed

_SHELL = re.compile(r"\S*sh -l?c ")


def command_of(item: Table) -> str:
    """The command line without the shell: `/bin/bash -lc '…'`."""
    line = text(item, "command")
    if len(line) > LONGEST or not _SHELL.match(line):
        return line
    try:
        words = shlex.split(line)
    except ValueError:
        return line
    return words[2] if len(words) == 3 else line


class CodexCommandOutput:
    """The end of a command's output; reported when a quarter of it is new."""

    def __init__(self) -> None:
        self._tail = ""
        self._length = 0
        self._new = 0

    def add(self, piece: str) -> Text | None:
        self._length += len(piece.encode())
        self._tail = (self._tail + piece)[-SHOWN:]
        self._new += len(piece)
        if self._new * 4 < len(self._tail):
            return None
        self._new = 0
        return self.text()

    def text(self) -> Text | None:
        if not self._tail:
            return None
        left_out = self._length - len(self._tail.encode())
        return Text(self._tail, Cut(left_out) if left_out > 0 else None)
