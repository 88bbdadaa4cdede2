"""Picker dialog: a list with columns, a filter input, keyboard and mouse selection."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from tillerman.surfaces.rendering import formatting
from tillerman.surfaces.tui import fuzzy
from tillerman.surfaces.tui.keys import keymap
from tillerman.surfaces.tui.keys.ordered_keys import OrderedKeys

MOST = 300  # maximum rows shown
WIDEST = (36, 28)  # maximum cells of title and state
TONES = {"good": "$text-success", "warn": "$text-warning", "bad": "$text-error", "": "$text-muted"}


@dataclass(frozen=True)
class PickerRow:
    """One row; texts from agents, files or users are sanitized when drawn."""

    key: str  # returned when chosen
    title: str
    state: str = ""
    hint: str | Content = ""
    tone: str = ""  # color of the state: good, warn, bad
    current: bool = False  # the value in use
    off: bool = False  # cannot be selected; the hint says why
    below: Content | None = None  # a second line

    @property
    def told(self) -> str:
        return formatting.one_line(str(self.hint))


class Rows(OrderedKeys, OptionList):
    """Option list that preserves the highlight when its rows change."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "select", "Choose", id="choose-row"),
    ]
    DEFAULT_CSS = """
    Rows {
        height: auto; border: none; padding: 0; background: transparent;
        text-wrap: nowrap; text-overflow: ellipsis; scrollbar-size-vertical: 1;
    }
    Rows:focus { border: none; background-tint: transparent; }
    Rows > .option-list--option { padding: 0 1; }
    Rows > .option-list--option-highlighted, Rows:focus > .option-list--option-highlighted {
        background: $block-cursor-background; color: $block-cursor-foreground;
        text-style: $block-cursor-text-style;
    }
    Rows:nocolor > .option-list--option-highlighted { text-style: reverse; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id, markup=False)
        self.columns: tuple[int, int] | None = None  # cells of title and state; None: automatic
        self._rows: list[PickerRow] = []
        self._query = ""

    @property
    def row(self) -> PickerRow | None:
        """The highlighted row."""
        at = self.highlighted
        return self._rows[at] if at is not None and at < len(self._rows) else None

    @property
    def rows(self) -> Sequence[PickerRow]:
        return self._rows

    def fill(
        self, rows: Iterable[PickerRow], *, query: str = "", highlight: str | None = None
    ) -> None:
        stored = highlight or (self.row.key if self.row else None)
        scroll = self.scroll_offset.y
        self._rows, self._query = list(rows), query
        widths = self._widths()
        self.clear_options()
        self.add_options([Option(self._drawn(row, widths)) for row in self._rows])
        keys = [row.key for row in self._rows]
        at = keys.index(stored) if stored in keys else 0
        self.highlighted = at if keys else None
        if highlight is None and stored in keys:
            self.scroll_to(y=scroll, animate=False)

    def more(self, rows: Sequence[PickerRow]) -> None:
        """Appends rows with the current column widths."""
        widths = self._widths()  # before the rows are added
        self._rows += rows
        self.add_options([Option(self._drawn(row, widths)) for row in rows])

    def put(self, row: PickerRow) -> None:
        """Replaces the row with the same key in place."""
        at = next((at for at, one in enumerate(self._rows) if one.key == row.key), None)
        if at is None:
            return
        before = self._widths()
        self._rows[at] = row
        if (widths := self._widths()) != before:
            self.fill(self._rows, query=self._query)
        else:
            self.replace_option_prompt_at_index(at, self._drawn(row, widths))

    def _widths(self) -> tuple[int, int]:
        if self.columns:
            return self.columns
        titles, states = WIDEST
        for_titles = max((_width(row.title) for row in self._rows), default=0)
        for_states = max((_width(row.state) for row in self._rows), default=0)
        return min(titles, for_titles), min(states, for_states)

    def _drawn(self, row: PickerRow, widths: tuple[int, int]) -> Content:
        title = _fitted(row.title, widths[0])
        if self._query and (found := fuzzy.match(self._query, title.plain)):
            for at in found[1]:
                title = title.stylize("underline", at, at + 1)
        parts = [
            Content("● " if row.current else "  "),
            title.stylize("dim" if row.off else "bold" if row.current else ""),
        ]
        if widths[1]:
            state = _fitted(row.state, widths[1])
            parts += [Content("  "), state.stylize("dim" if row.off else TONES[row.tone])]
        if row.hint:
            hint = row.hint if isinstance(row.hint, Content) else Content(row.told)
            parts += [Content("  "), hint.stylize_before("dim" if row.off else TONES[""])]
        line = Content("").join(parts)
        return line if row.below is None else Content("\n").join([line, row.below])


def _width(text: str) -> int:
    return cell_len(formatting.one_line(text))


def _fitted(text: str, width: int) -> Content:
    line = Content(formatting.one_line(text))
    line = line.truncate(width, ellipsis=True)
    return line.pad_right(max(0, width - line.cell_length))


class Picker(ModalScreen[str | None]):
    """Returns the key of the chosen row, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close", "Close", id="picker-close"),
        Binding("up", "move('cursor_up')", "Up", id="picker-up", show=False),
        Binding("down", "move('cursor_down')", "Down", id="picker-down", show=False),
        Binding("pageup", "move('page_up')", "Page up", id="picker-page-up", show=False),
        Binding("pagedown", "move('page_down')", "Page down", id="picker-page-down", show=False),
        Binding("enter", "choose", "Choose", id="picker-choose", show=False),
    ]
    DEFAULT_CSS = """
    Picker { align: center middle; background: $background 50%; }
    Picker > #frame {
        width: 92%; max-width: 100; height: auto; max-height: 92%;
        background: $surface; border: round $border; padding: 0 1;
        border-title-color: $text-primary; border-title-style: bold;
        border-subtitle-color: $text-muted;
    }
    Picker #filter { height: 1; border: none; padding: 0 1; background: $boost; margin-bottom: 1; }
    Picker Rows { max-height: 62vh; }
    Picker #told { height: auto; max-height: 6; padding: 0 1; margin-top: 1; color: $text-muted; }
    """

    def __init__(
        self,
        title: str,
        rows: Iterable[PickerRow] = (),
        *,
        told: str = "",
        filtered: bool = True,
        highlight: str | None = None,
    ) -> None:
        super().__init__()
        self._title = title
        self._all = list(rows)
        self._first_message = told
        self._filtered = filtered
        self._highlight = highlight
        self.list = Rows()

    def compose(self) -> ComposeResult:
        with Vertical(id="frame") as frame:
            frame.border_title = Content(formatting.one_line(self._title))
            frame.border_subtitle = keymap.described(self, "picker-choose", "picker-close")
            if self._filtered:
                yield quiet_input("type to filter", id="filter")
            yield self.list
            yield Static(self._first_message, id="told", markup=False)

    def on_mount(self) -> None:
        current = next((row.key for row in self._all if row.current), None)
        self.show_rows(self._all, highlight=self._highlight or current)
        (self.query_one(Input) if self._filtered else self.list).focus()
        self.begin()

    def begin(self) -> None:
        """Hook called when the picker is mounted."""

    # -- rows --------------------------------------------------------------------------------------

    @property
    def query_text(self) -> str:
        return self.query_one(Input).value if self._filtered and self.is_mounted else ""

    def show_rows(self, rows: Iterable[PickerRow], *, highlight: str | None = None) -> None:
        self._all = list(rows)
        self._show(self.query_text, self.fitting(self.query_text), highlight)

    def _show(self, query: str, fitting: list[PickerRow], highlight: str | None) -> None:
        shown = fitting[:MOST]
        if highlight and highlight not in {row.key for row in shown}:
            shown = [*(row for row in fitting if row.key == highlight), *shown]
        self.list.fill(shown, query=query, highlight=highlight)
        title = formatting.one_line(self._title)
        if len(fitting) > MOST:
            title = f"{title} ({MOST} of {len(fitting)}: type to filter)"
        self.query_one("#frame").border_title = Content(title)

    def fitting(self, query: str) -> list[PickerRow]:
        """Rows that match by title, followed by rows that match by title and state."""
        by_title = fuzzy.best(query, self._all, lambda row: row.title)
        named = {row.key for row in by_title}
        others = [row for row in self._all if row.key not in named]
        return by_title + fuzzy.best(query, others, lambda row: f"{row.title} {row.state}")

    def show_row(self, row: PickerRow) -> None:
        """Updates a row."""
        self._all = [row if one.key == row.key else one for one in self._all]
        self.list.put(row)
        if self.list.row and self.list.row.key == row.key:
            self.preview(row)

    def report(self, text: str | Content) -> None:
        """Shows a text below the list."""
        self.query_one("#told", Static).update(text)

    def preview(self, row: PickerRow) -> None:
        """Called when a row is highlighted."""
        self.report(row.told)

    def chosen(self, row: PickerRow) -> None:
        if row.off:
            self.report(f"{formatting.one_line(row.title)} cannot be selected: {row.told}")
        else:
            self.dismiss(row.key)

    # -- keys and mouse ----------------------------------------------------------------------------

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        query = event.value
        fitting = self.fitting(query)
        self._show(query, fitting, fitting[0].key if fitting and query else None)
        if not fitting:
            self.report("no matches")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.action_choose()

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        event.stop()
        if row := self.list.row:
            self.preview(row)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.action_choose()

    def on_click(self, event: events.Click) -> None:
        if event.widget is self:  # outside the frame
            self.action_close()

    def action_move(self, how: str) -> None:
        getattr(self.list, f"action_{how}")()

    def action_choose(self) -> None:
        if row := self.list.row:
            self.chosen(row)

    def action_close(self) -> None:
        self.dismiss(None)


class Line(OrderedKeys, Input):
    """A single-line text input."""

    BINDINGS: ClassVar[list[BindingType]] = []  # only the inherited bindings


def quiet_input(placeholder: str, *, id: str, value: str = "") -> Input:
    """Input without cursor blinking, so that an idle screen is not redrawn."""
    box = Line(value, placeholder=placeholder, id=id, compact=True, select_on_focus=False)
    box.cursor_blink = False
    return box
