"""What a command finds on its standard input: a here-document, a here-string, what is piped."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from bridle.core.permission.shell.script import is_open, unquoted
from bridle.core.permission.shell.source import Source

_LINE = re.compile(r"(?<!\\)\n")
_QUOTES = re.compile(r"['\"\\`$({]")


class Given(NamedTuple):
    """The text of it; None for what nobody knows. Not `sure`: the shell may change it first."""

    text: str | None = None
    sure: bool = True


class Here(NamedTuple):
    """A here-document that begins at the end of the line."""

    end: str
    literal: bool
    tabs: bool  # leading ones are left out

    def ends(self, line: str) -> bool:
        return (line.lstrip("\t") if self.tabs else line) == self.end


class Inputs:
    def __init__(self) -> None:
        self._waiting: list[tuple[Here, int]] = []  # that begin where this line ends; named where
        self._own: list[Here | str] = []  # of the command that is read
        self._from_file = False
        self._passed = Given()  # on, by the command before
        self._piped: Given | None = None  # to the command that is read

    def begin(self) -> None:
        """Another command is read."""
        self._own, self._from_file = [], False

    def document(self, here: Here, at: int, *, stdin: bool) -> None:
        self._waiting.append((here, at))
        if stdin:
            self._own.append(here)

    def string(self, text: str, *, stdin: bool) -> None:
        if stdin:
            self._own.append(text)

    def file(self) -> None:
        self._from_file = True

    def given(self, source: Source) -> Given:
        """To the command that has been read up to here."""
        if self._from_file or len(self._own) > 1:
            return Given()
        if not self._own:
            return self._piped or Given()
        own = self._own[0]
        if isinstance(own, str):
            return Given(own, sure=not is_open(own))
        body = self._ahead(own, source)
        changes = body is not None and not own.literal and any(c in body for c in "$`\\")
        return Given(body, sure=not changes)

    def printed(self, words: Sequence[str], source: Source) -> None:
        """What the command that was read passes on, where that is known."""
        said = unquoted(words)
        self._passed = Given()
        if words[0] in ("echo", "printf") and not (is_open(said) or "\\" in said or "%" in said):
            self._passed = Given(unquoted([one for one in words[1:] if not one.startswith("-")]))
        elif list(words) == ["cat"]:
            self._passed = self.given(source)
        self._piped = None

    def pipe(self) -> None:
        self._piped = self._passed

    def chain_ends(self) -> None:
        self._passed, self._piped = Given(), None

    def take_documents(self, source: Source, doubt: Callable[[str], None]) -> None:
        """Of the line that ends here. Who reads them has been judged; what they hold has not."""
        waiting, self._waiting = self._waiting, []
        if waiting and _LINE.search(source.text, waiting[0][1], max(0, source.at - 1)):
            doubt("a here-document that may begin in another line")
        for here, _ in waiting:
            lines: list[str] = []
            while (line := source.line()) is not None and not here.ends(line):
                lines.append(line)
            if line is None:
                doubt(f"a here-document without its {here.end}")
            if not here.literal:
                if any(line.endswith("\\") for line in lines):  # bash may see the end there
                    doubt("a here-document whose lines go on in the next")
                source.expansions_of("\n".join(lines))

    def leave(self, outer: Inputs) -> bool:
        """A subshell ends; whether documents of it have not begun."""
        outer._waiting += self._waiting
        return bool(self._waiting)

    def _ahead(self, here: Here, source: Source) -> str | None:
        """A here-document while its line is not at its end."""
        start = source.text.find("\n", source.at)
        if start < 0 or len(self._waiting) > 1 or _QUOTES.search(source.text, source.at, start):
            return None  # another line end may be the one
        lines: list[str] = []
        for line in source.text[start + 1 :].split("\n"):
            if here.ends(line):
                return "\n".join(lines)
            lines.append(line)
        return None
