"""Viewport: the window of laid-out blocks, extended as the user scrolls."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from textual.strip import Strip

    from tillerman.surfaces.tui.conversation.blocks import ConversationBlock

MOST = 600  # maximum lines while following the end
KEPT = 3_000  # maximum lines while the user scrolls
BATCH = 60  # lines laid out at once when scrolling past an end


class LaidOutBlock(Protocol):
    """Protocol of an ordered list of blocks."""

    @property
    def pieces(self) -> list[ConversationBlock]: ...
    def refresh(self, tick: int = 0) -> None: ...


class Spacer:
    """An empty block list, used before a session exists."""

    def __init__(self) -> None:
        self.pieces: list[ConversationBlock] = []

    def refresh(self, tick: int = 0) -> None:
        pass


class Viewport:
    """Draws only blocks in the window, so that opening a long session costs one screen."""

    def __init__(
        self,
        outline: LaidOutBlock,
        draw: Callable[[ConversationBlock, int], list[Strip]],
        width: int,
    ) -> None:
        self._outline = outline
        self._draw = draw
        self._width = width
        self._window: list[ConversationBlock] = []
        self._first = 0  # index of the first block in the window
        self._tops = [0]  # start line of each block, and the total height

    @property
    def height(self) -> int:
        return self._tops[-1]

    @property
    def at_start(self) -> bool:
        return self._first == 0

    @property
    def at_end(self) -> bool:
        return self._first + len(self._window) == len(self._outline.pieces)

    def end(self, height: int) -> None:
        """Moves the window to the last lines."""
        pieces = self._outline.pieces
        first, lines = len(pieces), 0
        while first and lines < height:
            first -= 1
            lines += len(self.lines_of(pieces[first]))
        self._open(first, len(pieces))

    def start(self, height: int) -> None:
        """Moves the window to the first lines."""
        self.show_from(0, height)

    def rewidth(self, width: int, keep: tuple[ConversationBlock, int] | None, height: int) -> int:
        """Changes the width and returns the new line number of the line to keep in view."""
        if keep is None or keep[0] not in self._outline.pieces:
            self._width = width
            self.end(height)
            return self.height
        piece, line = keep
        before = len(self.lines_of(piece))
        self._width = width
        line = line * len(self.lines_of(piece)) // max(1, before)
        self.show_from(self._outline.pieces.index(piece), line + height)
        return line

    def show_from(self, first: int, height: int) -> None:
        """Moves the window to start at this block index and fill the height."""
        pieces, last, lines = self._outline.pieces, first, 0
        while last < len(pieces) and lines < height:
            lines += len(self.lines_of(pieces[last]))
            last += 1
        self._open(first, last)

    def follow(self) -> None:
        """After an update: extends the window to the end and drops old lines at the start."""
        pieces = self._outline.pieces
        self._find_first()
        self._window = pieces[self._first :]
        self._measure()
        drop = 0
        while self.height - self._tops[drop] > MOST and drop < len(self._window) - 1:
            drop += 1
        if drop and self.height - self._tops[drop] >= MOST // 2:
            self._open(self._first + drop, len(pieces))

    def stay(self) -> None:
        """After an update: keeps the same blocks in the window."""
        count = len(self._window)
        self._find_first()
        self._window = self._outline.pieces[self._first : self._first + count]
        self._measure()

    def _find_first(self) -> None:
        """Corrects the start index after blocks before the window were added or removed."""
        pieces = self._outline.pieces
        stored = self._window[0] if self._window else None
        if stored is None or (self._first < len(pieces) and pieces[self._first] is stored):
            return
        self._first = pieces.index(stored) if stored in pieces else min(self._first, len(pieces))

    def before(self) -> int:
        """Lays out more blocks above; returns the number of added lines."""
        added = 0
        pieces = self._outline.pieces
        while self._first and added < BATCH:
            self._first -= 1
            self._window.insert(0, pieces[self._first])
            added += len(self.lines_of(pieces[self._first]))
        self._measure()
        stored = bisect_right(self._tops, KEPT)
        if stored < len(self._window):
            self._open(self._first, self._first + stored)
        return added

    def after(self) -> int:
        """Lays out more blocks below; returns the number of lines dropped above."""
        added, pieces = 0, self._outline.pieces
        while not self.at_end and added < BATCH:
            piece = pieces[self._first + len(self._window)]
            self._window.append(piece)
            added += len(self.lines_of(piece))
        self._measure()
        gone = bisect_right(self._tops, self.height - KEPT) - 1
        if gone <= 0:
            return 0
        lines = self._tops[gone]
        self._open(self._first + gone, self._first + len(self._window))
        return lines

    def line(self, y: int) -> Strip | None:
        """None outside the window, and for a block that shrank and was not measured again yet."""
        found = self.place(y)
        if found is None:
            return None
        lines = self.lines_of(found[0])
        return lines[found[1]] if found[1] < len(lines) else None

    def place(self, y: int) -> tuple[ConversationBlock, int] | None:
        """The block at a line, and the line number inside it."""
        if not 0 <= y < self.height:
            return None
        at = bisect_right(self._tops, y) - 1
        return self._window[at], y - self._tops[at]

    def top_of(self, piece: ConversationBlock) -> int | None:
        return self._tops[self._window.index(piece)] if piece in self._window else None

    def foldable(self) -> list[ConversationBlock]:
        return [piece for piece in self._window if piece.foldable]

    def lines_of(self, piece: ConversationBlock) -> list[Strip]:
        if piece.drawn is None or piece.drawn[0] != self._width:
            piece.drawn = (self._width, self._draw(piece, self._width))
        return piece.drawn[1]

    def _open(self, first: int, last: int) -> None:
        """Sets the window; discards the rendering of blocks outside of it."""
        window = self._outline.pieces[first:last]
        for piece in set(self._window).difference(window):
            piece.drawn = None
        self._first, self._window = first, window
        self._measure()

    def _measure(self) -> None:
        tops = [0]
        for piece in self._window:
            tops.append(tops[-1] + len(self.lines_of(piece)))
        self._tops = tops
