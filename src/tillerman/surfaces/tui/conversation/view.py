"""Scrollable conversation view: renders visible blocks and follows the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from rich.console import RenderableType
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from tillerman.surfaces.tui.conversation.viewport import LaidOutBlock, Spacer, Viewport
from tillerman.surfaces.tui.terminal.rich_lines import RichLineRenderer

if TYPE_CHECKING:
    from tillerman.surfaces.tui.conversation.blocks import ConversationBlock


class ConversationView(ScrollView, can_focus=True):
    """Renders a block list, which is updated by its owner; `show` redraws after updates."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "previous", "Previous", id="previous-piece", show=False),
        Binding("down", "next", "Next", id="next-piece", show=False),
        Binding("enter,space", "unfold", "Unfold", id="unfold", show=True),
        Binding("escape", "leave", "Back", id="leave-conversation", show=True),
        Binding("home", "start", "Beginning", id="beginning", show=False),
        Binding("end", "end", "End", id="end", show=False),
    ]
    COMPONENT_CLASSES: ClassVar[set[str]] = {"conversation--current"}
    DEFAULT_CSS = """
    ConversationView { height: 1fr; background: $background; scrollbar-size-vertical: 1;
        scrollbar-gutter: stable; overflow-x: hidden; }
    ConversationView > .conversation--current { background: $boost; }
    """

    class Left(Message):
        """The user left the view: the focus returns to the prompt box."""

    class ReachedStart(Message):
        """The user scrolled to the oldest loaded line; `whole` requests the complete history."""

        def __init__(self, *, whole: bool = False) -> None:
            super().__init__()
            self.whole = whole

    def __init__(self) -> None:
        super().__init__()
        self._outline: LaidOutBlock = Spacer()
        self._painter = RichLineRenderer()
        self._document = Viewport(self._outline, self._draw, 80)
        self._following = True  # follow the end, until the user scrolls away
        self._steered = False  # the view is scrolled by code, not by the user
        self._current: ConversationBlock | None = None
        self._greeting: RenderableType | None = None
        self._greeted: tuple[int, list[Strip]] | None = None  # (width, lines)
        self._base = Style.null()
        self.tick = 0

    # -- content -----------------------------------------------------------------------------------

    def greet(self, greeting: RenderableType) -> None:
        """Sets the text shown while the conversation is empty."""
        self._greeting, self._greeted = greeting, None
        self.refresh()

    def show(self) -> None:
        """Redraws after the block list changed."""
        if self.size.width < 4:
            return
        self._outline.refresh(self.tick)
        if self._following:
            if not self._document.at_end and not self._document.height:
                self._document.end(self._screenful)
            self._document.follow()
        else:
            self._document.stay()
        self._resize_virtually()
        if self._following:
            self._to_end()
        self.refresh()

    def bring(self, piece: ConversationBlock) -> None:
        """Scrolls a block into view; one taller than the screen is shown from its first line."""
        self.show()
        top = self._document.top_of(piece)
        if top is not None and len(self._document.lines_of(piece)) > self.size.height:
            self._following = False
            self._steer(top)

    def reopen(self, outline: LaidOutBlock, *, to_start: bool = False) -> None:
        """Replaces the block list with one that has more history; preserves the position.

        `to_start` scrolls to the start instead.
        """
        known = len(self._outline.pieces)
        self._outline = outline
        self._document = Viewport(outline, self._draw, self._inner_width)
        outline.refresh(self.tick)
        if self._following:
            self.action_end()
            return
        if to_start:
            self.action_start()
            return
        self._document.show_from(max(0, len(outline.pieces) - known), self._screenful)
        added = self._document.before()
        self._resize_virtually()
        self._steer(added)
        self.refresh()

    def redraw(self) -> None:
        """Redraws everything, for example after a theme change."""
        for piece in self._outline.pieces:
            piece.drawn = None
        self._greeted = None
        self._layout(self._inner_width)

    @property
    def following(self) -> bool:
        return self._following

    def render_lines(self, crop: Region) -> list[Strip]:
        self._base = self.rich_style  # expensive, and the same for all lines
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        line = y + self.scroll_offset.y
        base = self._base
        width = self.size.width
        found = self._document.place(line)
        if found is None:
            return self._greet_line(y).crop_extend(0, width, None).apply_style(base)
        if found[0] is self._current and self.has_focus:
            base = base + self.get_component_rich_style("conversation--current", partial=True)
        strip = self._document.line(line) or Strip([])
        strip = strip.crop_extend(0, width, None).apply_style(base)
        selection = self.text_selection
        if selection is not None and (span := selection.get_span(line)) is not None:
            strip = _selected(
                strip, span, self.screen.get_component_rich_style("screen--selection")
            )
        return strip.apply_offsets(0, line)

    def _greet_line(self, y: int) -> Strip:
        """A line of the vertically centered greeting."""
        if self._greeting is None or self._document.height:
            return Strip.blank(0)
        width = min(76, self.size.width - 4)
        if self._greeted is None or self._greeted[0] != width:
            self._greeted = (width, self._painter.lines(self._greeting, width))
        lines = self._greeted[1]
        above = max(0, (self.size.height - len(lines)) // 2)
        if not above <= y < above + len(lines):
            return Strip.blank(0)
        left = " " * max(2, (self.size.width - max(line.cell_length for line in lines)) // 2)
        return Strip([Segment(left), *lines[y - above]])

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        lines = [self._document.line(y) for y in range(self._document.height)]
        text = "\n".join(line.text.rstrip() if line else "" for line in lines)
        return selection.extract(text), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        self.refresh()

    def _draw(self, piece: ConversationBlock, width: int) -> list[Strip]:
        from tillerman.surfaces.tui.conversation.block_styles import (  # lazy
            BlockStyle,
            draw,
        )

        frame = BlockStyle(width, self.tick, dark=self.app.current_theme.dark)
        return self._painter.lines(draw(piece, frame), width)

    # -- scrolling ---------------------------------------------------------------------------------

    def on_resize(self, event: events.Resize) -> None:
        self._layout(self._inner_width)

    def watch_scroll_y(self, old: float, new: float) -> None:
        super().watch_scroll_y(old, new)
        self.vertical_scrollbar.position = new  # Textual updates only a visible scrollbar
        at_end = self._document.at_end and new >= self.max_scroll_y
        if at_end or (new < old and not self._steered):  # the user scrolled up
            self._following = at_end
        if self._steered:
            return
        if new < old and new < self.size.height:
            if not self._document.at_start:
                added = self._document.before()
                self._resize_virtually()
                self._steer(new + added)
            elif new <= 0:
                self.post_message(self.ReachedStart())
        elif new > old and not self._document.at_end and new > self.max_scroll_y - self.size.height:
            gone = self._document.after()
            self._resize_virtually()
            if gone:
                self._steer(new - gone)

    def action_end(self) -> None:
        self._document.end(self._screenful)
        self._following = True
        self._resize_virtually()
        self._to_end()
        self.refresh()

    def action_start(self) -> None:
        self._document.start(self._screenful)
        self._resize_virtually()
        self._following = False
        self._steer(0)
        self.refresh()
        self.post_message(self.ReachedStart(whole=True))

    def scroll_page_up(self, **how: Any) -> None:
        """Scrolls without animation, which would stop where more blocks are added above."""
        super().scroll_page_up(**{**how, "animate": False})

    def scroll_page_down(self, **how: Any) -> None:
        super().scroll_page_down(**{**how, "animate": False})

    def action_previous(self) -> None:
        self._move(-1)

    def action_next(self) -> None:
        self._move(1)

    def action_leave(self) -> None:
        self.post_message(self.Left())

    def action_unfold(self) -> None:
        if self._current:
            self._toggle(self._current)

    def on_click(self, event: events.Click) -> None:
        found = self._document.place(event.y + self.scroll_offset.y)
        if found and found[0].foldable and found[1] == 0:
            self._current = found[0]
            self._toggle(found[0])

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self._current = None
        self.refresh()

    def _move(self, by: int) -> None:
        """Selects the next foldable block; scrolls at either end."""
        choices = self._document.foldable()
        if self._current in choices:
            at = choices.index(self._current) + by
        else:
            at = len(choices) - 1 if by < 0 else len(choices)
        if not 0 <= at < len(choices):
            self.scroll_relative(y=by * 3, animate=False, immediate=True)
            return
        self._current = choices[at]
        top = self._document.top_of(self._current)
        if top is not None:
            self.scroll_to_region(Region(0, top, self.size.width, 1), animate=False, immediate=True)
        self.refresh()

    def _toggle(self, piece: ConversationBlock) -> None:
        piece.toggle()
        self._document.stay()
        self._resize_virtually()
        self.refresh()

    def _layout(self, width: int) -> None:
        if width < 4:
            return
        keep = None if self._following else self._document.place(self.scroll_offset.y)
        self._outline.refresh(self.tick)
        y = self._document.rewidth(width, keep, self._screenful)
        self._resize_virtually()
        if self._following:
            self._to_end()
        else:
            self._steer(y)
        self.refresh()

    def _resize_virtually(self) -> None:
        self.virtual_size = Size(self._inner_width, self._document.height)

    def _to_end(self) -> None:
        """Scrolls to the end, even if the scrollbar is not shown yet."""
        self._steer(self.max_scroll_y)

    def _steer(self, y: float) -> None:
        self._steered = True
        try:
            self.scroll_to(y=y, animate=False, immediate=True, force=True)
        finally:
            self._steered = False

    @property
    def _screenful(self) -> int:
        return 2 * max(self.size.height, 10)

    @property
    def _inner_width(self) -> int:
        return self.scrollable_content_region.width


def _selected(strip: Strip, span: tuple[int, int], style: Style) -> Strip:
    start, end = span
    end = len(strip.text) if end == -1 else end
    start_cell, end_cell = (strip.index_to_cell_position(at) for at in (start, end))
    before, within, after = strip.divide([start_cell, end_cell, strip.cell_length])
    return Strip.join([before, within.apply_style(style), after])
