"""An agent's words as they stream: whole Markdown blocks are sealed, the rest is the tail."""

from __future__ import annotations

from typing import Protocol

from bridle.core.terminal import Cleaner

TAIL_CAP = 32_768  # characters; a block that never ends is let go in parts


class Harmless(Protocol):
    """Makes words safe for a terminal, wherever they were cut."""

    def feed(self, text: str, /) -> str: ...


class Prose:
    def __init__(self, harmless: Harmless | None = None) -> None:
        self._harmless = harmless or Cleaner()
        self._block: list[str] = []  # whole lines
        self._line = ""
        self._size = 0
        self._fence = ""

    def feed(self, chunk: str) -> list[str]:
        """The blocks that these words complete."""
        text = self._harmless.feed(chunk)
        if "\n" not in text:
            self._line += text
            self._size += len(text)
            return self._overflow()
        sealed: list[str] = []
        *lines, rest = (self._line + text).split("\n")
        for line in lines:
            self._add(line, sealed)
        self._line = rest
        self._size = sum(len(one) + 1 for one in self._block) + len(rest)
        return sealed + self._overflow()

    def tail(self, lines: int) -> str:
        """The last lines of what is not sealed yet."""
        return "\n".join([*self._block[-lines:], self._line][-lines:])

    @property
    def size(self) -> int:
        """Characters that are not sealed yet."""
        return self._size

    def end(self) -> list[str]:
        if self._line:
            self._block.append(self._line)
        self._line, self._fence = "", ""
        return self._seal()

    def _add(self, line: str, sealed: list[str]) -> None:
        mark = line.lstrip()[:3]
        if self._fence:
            self._block.append(line)
            if line.strip().startswith(self._fence) and not line.strip().strip(self._fence[0]):
                self._fence = ""
        elif mark in ("```", "~~~"):
            self._fence = mark
            self._block.append(line)
        elif line.strip():
            self._block.append(line)
        else:
            sealed += self._seal()

    def _overflow(self) -> list[str]:
        return self.end() if self._size > TAIL_CAP else []

    def _seal(self) -> list[str]:
        block = "\n".join(self._block)
        self._block, self._size = [], 0
        return [block] if block.strip() else []
