"""Container of the session panes: which are open, which is visible, which one comes next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from textual.widgets import ContentSwitcher

from tillerman.surfaces.tui.session_pane import SessionPane

if TYPE_CHECKING:
    from tillerman.surfaces.tui.session_controller import SessionController


class PaneSwitcher(ContentSwitcher):
    """One pane per tab. Compose it with the first one, `pane-1`."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(initial="pane-1", **settings)
        self.closing: set[SessionPane] = set()
        self._opened = 1

    @property
    def visible_pane(self) -> SessionPane:
        current = self.visible_content
        assert isinstance(current, SessionPane)
        return current

    @property
    def panes(self) -> list[SessionPane]:
        return list(self.query(SessionPane))

    def pane_of(self, session: str) -> SessionPane | None:
        """Returns the pane that shows this session."""
        shown = (pane for pane in self.panes if pane.channel and pane.channel.id == session)
        return next(shown, None)

    def has(self, id: str) -> bool:
        """Whether there is such a pane that is not closing."""
        return id in {pane.id for pane in self.panes if pane not in self.closing}

    def after_closing(self, pane: SessionPane) -> SessionPane | None:
        """Returns the pane to show instead: the next one, else the one before."""
        panes = self.panes
        at = panes.index(pane)
        others = panes[at + 1 :] + panes[:at][::-1]
        return next((other for other in others if other not in self.closing), None)

    def neighbour(self, by: int) -> SessionPane:
        """Returns the pane that is `by` tabs after the visible one; the first follows the last."""
        panes = self.panes
        return panes[(panes.index(self.visible_pane) + by) % len(panes)]

    async def add_pane(self, channel: SessionController) -> SessionPane:
        self._opened += 1
        pane = SessionPane(channel.cwd, channel, id=f"pane-{self._opened}")
        await self.add_content(pane)
        return pane
