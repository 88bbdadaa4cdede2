"""Key bar: the active key bindings, as many as fit on one line."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rich.text import Text
from textual import events
from textual.app import RenderResult
from textual.binding import Binding
from textual.widget import Widget

if TYPE_CHECKING:
    from textual.screen import Screen

ORDER = (
    "send", "unfold", "steer", "back", "cancel", "repo-action", "approval", "agent", "model",
    "sessions", "quit",
)  # fmt: skip
DISPENSABLE = (
    "model",
    "approval",
    "sessions",
    "agent",
    "quit",
    "repo-action",
)  # dropped in this order
PALETTE = "palette"  # always visible at the right, since it lists all other actions


class KeyLine(Widget):
    """Drops the least important keys instead of truncating."""

    ALLOW_SELECT = False
    DEFAULT_CSS = """
    KeyLine { dock: bottom; height: 1; background: $footer-background; color: $foreground; }
    """

    def __init__(self, pointless: Collection[str] = ()) -> None:
        super().__init__()
        self._pointless = frozenset(pointless)

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self._changed)

    def on_unmount(self) -> None:
        self.screen.bindings_updated_signal.unsubscribe(self)

    def _changed(self, screen: Screen[object]) -> None:
        self.refresh()

    def leave_out(self, ids: Collection[str]) -> None:
        """Hides keys that have no effect now."""
        if frozenset(ids) != self._pointless:
            self._pointless = frozenset(ids)
            self.refresh()

    def render(self) -> RenderResult:
        left, right = self._shown()
        line = Text("", no_wrap=True, end="")
        for key in left:
            line.append_text(self._drawn(key))
        if right:
            drawn = self._drawn(right)
            line.append(" " * max(0, self.size.width - line.cell_len - drawn.cell_len))
            line.append_text(drawn)
        return line

    def _shown(self) -> tuple[Sequence[Binding], Binding | None]:
        known = {binding.id or "": binding for binding in self._bindings_now()}
        right = known.pop(PALETTE, None)
        if "steer" in known and "send" in known:  # a turn is running
            known["send"] = replace(known["send"], description="Queue")
        order = {id: number for number, id in enumerate(ORDER)}
        left = sorted(known.values(), key=lambda key: order.get(key.id or "", len(ORDER)))
        room = self.size.width - (self._drawn(right).cell_len if right else 0)
        for id in DISPENSABLE:
            if self._cells(left) <= room:
                break
            left = [key for key in left if key.id != id]
        while left and self._cells(left) > room:
            left.pop()
        return left, right

    def _bindings_now(self) -> Iterable[Binding]:
        """Active bindings, each once, even if several keys trigger it."""
        seen: set[str | None] = set()
        for _, binding, enabled, _ in self.screen.active_bindings.values():
            wanted = binding.show or binding.id == PALETTE
            if wanted and enabled and binding.id not in self._pointless | seen:
                seen.add(binding.id)
                yield binding

    def _cells(self, keys: Iterable[Binding]) -> int:
        return sum(self._drawn(key).cell_len for key in keys)

    def _drawn(self, key: Binding) -> Text:
        shown = self.app.get_key_display(key)
        accent = self.app.theme_variables["footer-key-foreground"]
        return Text.assemble((f" {shown}", f"bold {accent}"), f" {key.description} ")

    def on_click(self, event: events.Click) -> None:
        left, right = self._shown()
        edge = 0
        for key in left:
            edge += self._drawn(key).cell_len
            if event.x < edge:
                self.app.simulate_key(key.key)
                return
        if right and event.x >= self.size.width - self._drawn(right).cell_len:
            self.app.simulate_key(right.key)
