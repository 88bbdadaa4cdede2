"""Splits streamed Markdown into complete blocks and an unfinished tail."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tillerman.core.terminal_sanitizer import ControlCharRevealer
from tillerman.surfaces.rendering.markdown_parser import last_block

TAIL_CAP = 32_768  # characters; a longer block is emitted in parts
_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})")
_ITEM = re.compile(r"\s*(?:[-+*]|\d{1,9}[.)])(?:\s|$)")


@dataclass(frozen=True, slots=True)
class Block:
    text: str
    verbatim: bool = False  # part of an oversized block: not rendered as Markdown


class MarkdownStream:
    """Splits at Markdown block boundaries, so that each block can be rendered independently."""

    def __init__(self) -> None:
        self._revealer = ControlCharRevealer()
        self._block: list[str] = []  # complete lines
        self._line = ""
        self._size = 0
        self._fence = ""  # marker of the open code fence, outside lists
        self._listed = False  # a line started a list item
        self._verbatim = False  # a part of this block was emitted

    def feed(self, chunk: str) -> list[Block]:
        """Appends a chunk and returns the blocks it completes."""
        text = self._revealer.feed(chunk)
        sealed: list[Block] = []
        *lines, rest = text.split("\n")
        for line in lines:
            self._add(self._line + line, sealed)
            self._line = ""
        self._line += rest
        if self._size + len(self._line) > TAIL_CAP:
            sealed += self._overflow()
        return sealed

    def tail(self, lines: int) -> str:
        """The last lines of the unfinished text."""
        return "\n".join([*self._block[-lines:], self._line][-lines:])

    @property
    def size(self) -> int:
        """Number of characters in the unfinished text."""
        return self._size + len(self._line)

    def end(self) -> list[Block]:
        sealed: list[Block] = []
        self._line += self._revealer.end()
        if self._line:
            self._add(self._line, sealed)
        self._line = ""
        return sealed + self._seal()

    def _add(self, line: str, sealed: list[Block]) -> None:
        blank = not line.strip()
        if self._fence:
            if _closes(line, self._fence):
                self._fence = ""
        elif blank and not self._listed:
            sealed += self._seal()
            return
        elif not blank:
            if self._listed and self._is_new_block(line):
                sealed += self._seal()
            self._note(line)
        self._block.append(line)
        self._size += len(line) + 1

    def _note(self, line: str) -> None:
        """Updates the list and fence state that decides where the block ends."""
        self._listed = self._listed or _ITEM.match(line) is not None
        if not self._listed and (bars := _FENCE.match(line)):
            self._fence = bars[1]

    def _is_new_block(self, line: str) -> bool:
        """True if the line starts a block after the list, not a continuation of it."""
        if not self._block or self._block[-1].strip():
            return False
        if _ITEM.match(line) or line.startswith(("  ", "\t", " \t")):
            return False
        return last_block("\n".join([*self._block, line])) == len(self._block)

    def _overflow(self) -> list[Block]:
        text = "\n".join([*self._block, self._line])
        self._block, self._line, self._size, self._verbatim = [], "", 0, True
        return [Block(text, verbatim=True)]

    def _seal(self) -> list[Block]:
        block = Block("\n".join(self._block).rstrip(), self._verbatim)
        self._block, self._size, self._fence = [], 0, ""
        self._listed = self._verbatim = False
        return [block] if block.text.strip() else []


def _closes(line: str, fence: str) -> bool:
    bars = line.strip()
    indented = len(line) - len(line.lstrip(" "))
    return indented <= 3 and len(bars) >= len(fence) and not bars.strip(fence[0])
