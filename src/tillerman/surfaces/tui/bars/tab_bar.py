"""Tab bar: the open sessions; shown if there are at least two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import ClassVar, Literal

from rich.cells import cell_len, set_cell_size
from textual import events
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from tillerman.surfaces.rendering import formatting

State = Literal["", "running", "waiting", "finished"]
MARKS: dict[State, str] = {"": " ", "running": "▸", "waiting": "!", "finished": "●"}
STYLES: dict[State, str] = {
    "": "",
    "running": "$text-primary",
    "waiting": "bold $text-warning",
    "finished": "$text-success",
}
LEAST, MOST = 12, 32  # cells per label


@dataclass(frozen=True)
class Tab:
    pane: str  # its id
    title: str
    state: State = ""
    current: bool = False


class TabBar(Widget):
    COMPONENT_CLASSES: ClassVar[set[str]] = {"tab-bar--current"}
    DEFAULT_CSS = """
    TabBar { height: 1; display: none; background: $panel; color: $text-muted; }
    TabBar.-several { display: block; }
    TabBar > .tab-bar--current { background: $background; color: $foreground; text-style: bold; }
    TabBar:nocolor > .tab-bar--current { text-style: bold reverse; }
    """

    class Chosen(Message):
        def __init__(self, pane: str) -> None:
            super().__init__()
            self.pane = pane

    def __init__(self) -> None:
        super().__init__()
        self._tabs: tuple[Tab, ...] = ()
        self._first = 0  # first visible tab

    @property
    def tabs(self) -> Sequence[Tab]:
        return self._tabs

    def show(self, tabs: Sequence[Tab]) -> None:
        if tuple(tabs) == self._tabs:
            return
        self._tabs = tuple(tabs)
        self.set_class(len(tabs) > 1, "-several")
        self.refresh()

    def _shown(self) -> tuple[Sequence[Tab], int]:
        """Visible tabs including the current one, and the width of each."""
        room = max(self.size.width, LEAST)
        width = max(LEAST, min(MOST, room // max(1, len(self._tabs))))
        count = max(1, room // width)
        current = next((at for at, tab in enumerate(self._tabs) if tab.current), 0)
        first = min(max(0, current - count + 1), max(0, len(self._tabs) - count))
        self._first = first
        return self._tabs[first : first + count], width

    def render(self) -> Content:
        shown, width = self._shown()
        return Content.assemble(*(self._label(at, tab, width) for at, tab in enumerate(shown)))

    def _label(self, at: int, tab: Tab, width: int) -> Content:
        number = f"{self._first + at + 1}"
        title = formatting.one_line(tab.title) or "new session"
        room = width - len(number) - 4
        if cell_len(title) > room:
            title = set_cell_size(title, room - 1) + "…"
        label = Content.assemble(
            " ",
            (MARKS[tab.state], STYLES[tab.state]),
            " ",
            (f"{number} ", "dim"),
            set_cell_size(title, room),
        )
        if not tab.current:
            return label
        style = self.get_visual_style("tab-bar--current")
        return label.stylize_before(style)

    def on_click(self, event: events.Click) -> None:
        shown, width = self._shown()
        edges = accumulate([0, *(width for _ in shown)])
        for tab, (left, right) in zip(shown, pairwise(edges), strict=True):
            if left <= event.x < right:
                self.post_message(self.Chosen(tab.pane))
