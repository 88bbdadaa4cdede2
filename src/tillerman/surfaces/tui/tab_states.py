"""Tracks the state and title of each tab."""

from __future__ import annotations

from collections.abc import Sequence

from tillerman.surfaces.tui.bars.tab_bar import State, Tab
from tillerman.surfaces.tui.session_pane import SessionPane


class Tabs:
    """Updated on every pane change, many times a second while one streams."""

    def __init__(self) -> None:
        self._busy: set[SessionPane] = set()
        self._unseen: set[SessionPane] = set()  # finished while not visible
        self._titles: dict[SessionPane, tuple[object, str]] = {}  # with their cache keys

    def of(self, panes: Sequence[SessionPane], seen: SessionPane) -> list[Tab]:
        return [
            Tab(pane.id or "", self._title(pane), self._state(pane), pane is seen) for pane in panes
        ]

    def mark(self, pane: SessionPane, seen: bool) -> None:
        """Updates the state of a pane."""
        busy = bool(pane.transcript.busy and pane.channel and pane.channel.running)
        if seen:
            self._unseen.discard(pane)
        elif pane in self._busy and not busy:
            self._unseen.add(pane)
        (self._busy.add if busy else self._busy.discard)(pane)

    def forget(self, pane: SessionPane) -> None:
        self._busy.discard(pane)
        self._unseen.discard(pane)
        self._titles.pop(pane, None)

    def retitle(self) -> None:
        """Clears the cached titles, since a session may have been renamed."""
        self._titles.clear()

    def _state(self, pane: SessionPane) -> State:
        if pane.transcript.requests:
            return "waiting"
        if pane in self._busy:
            return "running"
        return "finished" if pane in self._unseen else ""

    def _title(self, pane: SessionPane) -> str:
        """Cached title; queries the store only when it may have changed."""
        made_from = (len(pane.transcript.turns), pane.transcript.title, pane.channel)
        known = self._titles.get(pane)
        if known is None or known[0] != made_from:
            known = self._titles[pane] = (made_from, pane.titled)
        return known[1]
