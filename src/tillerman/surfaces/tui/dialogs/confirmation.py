"""Confirmation dialog: shows what will be done, and asks yes or no."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.console import Group, RenderableType
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from tillerman.surfaces.rendering import formatting


class _Choice(Static):
    """A choice that can be clicked."""

    def __init__(self, key: str, words: str, action: str) -> None:
        super().__init__(Text.assemble((f" {key} ", "reverse"), f" {words}"))
        self._action = action

    async def on_click(self, event: events.Click) -> None:
        event.stop()
        await self.screen.run_action(self._action)


class Confirmation(ModalScreen[bool]):
    """Returns True only if the user pressed the key for yes, or clicked on it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "Yes", id="confirm"),
        Binding("n,escape", "answer(False)", "No", id="refuse"),
        Binding("up,k", "scroll(-1)", "Up", id="confirm-up", show=False),
        Binding("down,j", "scroll(1)", "Down", id="confirm-down", show=False),
    ]
    DEFAULT_CSS = """
    Confirmation {
        align: center middle;
        & > Vertical {
            width: 90%; max-width: 100; height: auto; max-height: 90%;
            background: $surface; border: round $primary; padding: 0 1;
        }
        & VerticalScroll { height: auto; max-height: 16; margin: 1 0; scrollbar-size-vertical: 1; }
        & #what { height: auto; }
        & #notes { height: auto; color: $text-muted; }
        & #choices { layout: horizontal; height: 1; }
        & _Choice { width: auto; margin: 0 3 0 0; }
    }
    """

    def __init__(
        self,
        title: str,
        what: RenderableType,
        *,
        notes: Sequence[str] = (),
        yes: str = "yes",
        no: str = "no",
    ) -> None:
        super().__init__()
        self._asked = formatting.one_line(title)
        self._what = what
        self._notes = notes
        self._yes, self._no = yes, no

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = Text(self._asked)
            with VerticalScroll():
                yield Static(Group(self._what), id="what")
                if self._notes:
                    lines = [Text(f"\n{formatting.one_line(note)}") for note in self._notes]
                    yield Static(Group(*lines), id="notes")
            with Vertical(id="choices"):
                yield _Choice("y", self._yes, "answer(True)")
                yield _Choice("n", self._no, "answer(False)")

    def action_answer(self, yes: bool) -> None:
        self.dismiss(yes)

    def action_scroll(self, by: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=by, animate=False)
