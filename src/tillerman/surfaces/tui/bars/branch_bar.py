"""Branch bar: shows branch, pull request and merge status, and offers the next action."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.style import Style
from rich.text import Text
from textual import events
from textual.app import ComposeResult, RenderResult
from textual.containers import Container
from textual.message import Message
from textual.widget import Widget
from textual.worker import Worker

if TYPE_CHECKING:
    from tillerman.surfaces.tui.bars.branch_action import RepositoryAction
    from tillerman.surfaces.tui.bars.branch_line import Part
    from tillerman.surfaces.tui.bars.branch_refresh import RepositorySnapshot, RepositoryWatch
    from tillerman.surfaces.tui.session_pane import SessionPane
    from tillerman.workspace.branch.status import Breadcrumb, Color

# (on dark background, on light background)
COLORS: dict[Color, tuple[str, str]] = {
    "grey": ("#a3a9b0", "#5c636b"),
    "amber": ("#f2b643", "#8a5800"),
    "blue": ("#6cb2ff", "#0a58b0"),
    "red": ("#f2766c", "#b3261e"),
    "bright red": ("#ff4040", "#e00000"),
    "green": ("#5cc878", "#1a7a34"),
    "purple": ("#b898f5", "#6a3fc0"),
    "dark grey": ("#7d838a", "#7a8087"),
}
NARROW = 70  # cells; a narrower screen has no room for a column
SHORTLY = 2.0  # seconds a notification is shown


class BreadcrumbBar(Widget):
    """Hidden outside a repository."""

    DEFAULT_CSS = """
    BreadcrumbBar {
        display: none; dock: top; height: 1; width: 100%;
        background: $panel; color: $foreground; padding: 0 1;
        &.-bottom { dock: bottom; }
        &.-left, &.-right { height: 100%; width: 24; padding: 1 1 0 1; }
        &.-left { dock: left; }
        &.-right { dock: right; }
        &.-shown { display: block; }
    }
    """

    class ActionWanted(Message):
        """The user clicked on the next action."""

    class Settled(Message):
        """The bar was shown or hidden."""

    def __init__(self) -> None:
        super().__init__()
        self.repository: RepositoryWatch | None = None
        self._place = "hidden"
        self._folder: Path | None = None
        self._seen: RepositorySnapshot | None = None
        self._following: Worker[None] | None = None
        self._doing = ""
        self._acting = False
        self._over_action = False

    # -- watching ----------------------------------------------------------------------------------

    def begin(self, place: str, folder: Path) -> None:
        """Starts watching the repository; `place` is the configured position."""
        from tillerman.surfaces.tui.bars.branch_refresh import RepositoryWatch

        self.repository = RepositoryWatch(self.show)
        self._place = place
        self.settle()
        self.follow(folder)

    def follow(self, folder: Path) -> None:
        """Watches the folder of the visible session."""
        if self.repository is None or folder == self._folder:
            return
        self._folder = folder
        self._seen = None
        self.refresh()
        if self._place != "hidden":
            self._following = self.run_worker(self._follow, group="repository", exclusive=True)

    async def _follow(self) -> None:
        assert self.repository is not None
        assert self._folder is not None
        await self.repository.follow(self._folder)

    def place(self, place: str) -> None:
        """Moves the bar to another position."""
        folder, self._folder = self._folder, None
        self._place = place
        self.settle()
        if place == "hidden" and self._following:
            self._following.cancel()
        if folder:
            self.follow(folder)

    async def on_unmount(self) -> None:
        if self.repository:
            await self.repository.close()

    # -- rendering ---------------------------------------------------------------------------------

    @property
    def crumb(self) -> Breadcrumb | None:
        return self._seen.crumb if self._seen else None

    def show(self, seen: RepositorySnapshot) -> None:
        if seen == self._seen:
            return
        self._seen = seen
        self.settle()
        self.tooltip = self._details()
        self.refresh()

    def show_progress(self, doing: str) -> None:
        """Shows the progress of the next action; empty when it is done."""
        self._doing = doing
        self.refresh()

    def settle(self) -> None:
        """Applies the position; a column becomes a line on a narrow screen."""
        place = self._place
        if place in ("left", "right") and self.app.size.width < NARROW:
            place = "top"
        for one in ("bottom", "left", "right"):
            self.set_class(place == one, f"-{one}")
        seen = self._seen
        before = self.has_class("-shown")
        self.set_class(place != "hidden" and bool(seen and (seen.crumb or seen.problem)), "-shown")
        if self.has_class("-shown") != before:
            self.post_message(self.Settled())

    def render(self) -> RenderResult:
        lines = [
            Text.assemble(*((part.text, self._style(part)) for part in line), no_wrap=True)
            for line in self._lines()
        ]
        return Text("\n", no_wrap=True, end="").join(lines)

    def _lines(self) -> list[list[Part]]:
        from tillerman.surfaces.tui.bars.branch_line import in_line, stacked

        if self._seen is None:
            return []
        room = self.content_size.width
        if self._is_column:
            return [[part] for part in stacked(self._seen, room, self._doing)]
        return [in_line(self._seen, room, self._doing)]

    @property
    def _is_column(self) -> bool:
        return self.has_class("-left") or self.has_class("-right")

    def _style(self, part: Part) -> Style:
        match part.kind:
            case "status" if self.crumb:
                color = self.crumb.status.color
                dark, light = COLORS[color]
                shade = dark if self.app.current_theme.dark else light
                return Style(color=shade, bold=True, reverse=color == "bright red")
            case "action":
                return Style(bold=True, underline=self._over_action)
            case "name" | "number":
                return Style()
            case "branch":
                return Style(bold=True)
            case _:
                return Style(dim=True)

    def _details(self) -> Text | None:
        if not self.crumb:
            return None
        from tillerman.surfaces.rendering import formatting
        from tillerman.surfaces.rendering.branch_details import details

        lines = details(self.crumb)
        doubt = self._seen.doubt if self._seen else None
        if pull_error := doubt or self.crumb.unavailable:
            lines.append(
                formatting.one_line(
                    f"{pull_error.text}: {pull_error.hint}" if pull_error.hint else pull_error.text
                )
            )
        return Text("\n".join(lines)) if lines else None

    # -- actions -----------------------------------------------------------------------------------

    def act(self, pane: SessionPane) -> None:
        """Runs the next action for the session's folder; one at a time."""
        if self.repository is None or self._acting:
            return
        from tillerman.surfaces.tui.bars.branch_action import RepositoryAction

        self._acting = True
        self.run_worker(self._act(RepositoryAction(self, pane)), group="next step")

    async def _act(self, action: RepositoryAction) -> None:
        try:
            await action.run()
        finally:
            self._acting = False

    def copy_link(self) -> None:
        """Copies the URL of the pull request."""
        pull = self.crumb.pull_request if self.crumb else None
        if pull and pull.url:
            from tillerman.surfaces.rendering import formatting

            url = formatting.one_line(pull.url)
            self.app.copy_to_clipboard(url)
            self.notify(url, title="Copied", markup=False, timeout=SHORTLY)
        else:
            message = "The branch has no known pull request."
            self.notify(message, severity="warning", timeout=SHORTLY)

    # -- mouse -------------------------------------------------------------------------------------

    def on_click(self, event: events.Click) -> None:
        if self._is_action(event):
            event.stop()
            self.post_message(self.ActionWanted())

    def on_mouse_move(self, event: events.MouseMove) -> None:
        self._hover(self._is_action(event))

    def on_leave(self) -> None:
        self._hover(False)

    def _hover(self, over: bool) -> None:
        if over != self._over_action:
            self._over_action = over
            self.refresh()

    def _is_action(self, event: events.MouseEvent) -> bool:
        at = event.get_content_offset(self)
        lines = self._lines()
        if at is None or not 0 <= at.y < len(lines):
            return False
        start = 0
        for part in lines[at.y]:
            if part.kind == "action":
                return start <= at.x < start + part.cells
            start += part.cells
        return False


class BreadcrumbFrame(Container):
    """Contains the session pane, with the bar docked at one edge."""

    DEFAULT_CSS = """
    BreadcrumbFrame { height: 1fr; }
    """

    def compose(self) -> ComposeResult:
        yield BreadcrumbBar()

    def on_resize(self) -> None:
        self.query_one(BreadcrumbBar).settle()
