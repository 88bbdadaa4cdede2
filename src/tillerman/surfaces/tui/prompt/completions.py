"""Completion list above the prompt box for the word at the cursor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.text import Text
from textual import events
from textual.app import RenderResult
from textual.widget import Widget

from tillerman.surfaces.rendering import formatting

ROWS = 8


@dataclass(frozen=True)
class Completion:
    """A completion and its help text."""

    word: str
    help: str = ""


class Completions(Widget):
    """Never has the focus: the prompt box forwards keys to it."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"completions--current"}
    DEFAULT_CSS = """
    Completions {
        display: none; height: auto; overlay: screen; constrain: none inside;
        background: $panel; color: $foreground; padding: 0 1;
    }
    Completions.-open { display: block; }
    Completions > .completions--current {
        background: $block-cursor-background; color: $block-cursor-foreground; text-style: bold;
    }
    """

    def __init__(self, choose: Callable[[], None], room: Callable[[], int]) -> None:
        super().__init__()
        self._choose = choose  # called on a click
        self._room = room  # available lines above the box
        self._choices: Sequence[Completion] = ()
        self._note = ""
        self._at = 0
        self._top = 0
        self._rows = ROWS

    @property
    def open(self) -> bool:
        return self.has_class("-open")

    @property
    def current(self) -> Completion | None:
        return self._choices[self._at] if self.open and self._choices else None

    @property
    def choices(self) -> Sequence[Completion]:
        return self._choices

    def offer(self, choices: Sequence[Completion], note: str = "") -> None:
        """Shows the choices; hidden if there are no choices and no note."""
        stored = self.current
        moved = self._at > 0  # keep the selection only if the user moved it
        self._choices, self._note = choices, note
        self._at = choices.index(stored) if moved and stored in choices else 0
        self._top = 0
        self.set_class(bool(choices or note), "-open")
        self._show()

    def close(self) -> None:
        self._choices, self._note, self._at = (), "", 0
        self.remove_class("-open")

    def move(self, by: int) -> None:
        if self._choices:
            self._at = (self._at + by) % len(self._choices)
            self._show()

    def _show(self) -> None:
        self._rows = max(1, min(ROWS, self._room() - 1))
        if self._at >= self._top + self._rows:
            self._top = self._at - self._rows + 1
        self._top = min(self._top, self._at)
        self.styles.offset = (0, -self._height)
        self.refresh(layout=True)

    @property
    def _height(self) -> int:
        return min(len(self._choices), self._rows) + bool(self._footer)

    @property
    def _footer(self) -> str:
        hidden = len(self._choices) - self._rows
        more = f"{self._at + 1} of {len(self._choices)}" if hidden > 0 else ""
        return " · ".join(part for part in (more, self._note) if part)

    def render(self) -> RenderResult:
        width = max(1, self.size.width)
        shown = self._choices[self._top : self._top + self._rows]
        column = max((len(formatting.one_line(one.word)) for one in shown), default=0)
        column = min(column, width * 2 // 3)
        chosen = self.get_component_rich_style("completions--current", partial=True)
        lines = []
        for number, one in enumerate(shown, self._top):
            word = Text(
                _shortened(formatting.one_line(one.word), width if not one.help else column)
            )
            line = word
            if one.help:
                line.append(" " * (column - line.cell_len + 2))
                line.append(formatting.one_line(one.help), style="dim")
            line.truncate(width, overflow="ellipsis", pad=True)
            if number == self._at:
                line.stylize(chosen)
            lines.append(line)
        if self._footer:
            lines.append(Text(formatting.one_line(self._footer), style="dim"))
        return Text("\n").join(lines)

    def on_click(self, event: events.Click) -> None:
        at = self._top + event.y
        if at < len(self._choices) and event.y < self._rows:
            self._at = at
            self._choose()


def _shortened(word: str, room: int) -> str:
    """Truncates at the start, since the end of a path is more specific."""
    return word if len(word) <= room else f"…{word[len(word) - room + 1 :]}"
