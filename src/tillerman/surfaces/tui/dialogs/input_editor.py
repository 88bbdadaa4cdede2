"""Editor dialog for the input of a tool call before it is allowed."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Footer, Static, TextArea

from tillerman.core.events import Answer, PermissionRequested
from tillerman.surfaces.rendering import formatting
from tillerman.surfaces.rendering.dialogs import PermissionDialog


class InputEditor(ModalScreen[Answer | None]):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "allow", "Allow with changes", id="input-allow"),
        Binding("escape", "back", "Back", id="input-back"),
    ]
    DEFAULT_CSS = """
    InputEditor { align: center middle; }
    InputEditor > Vertical {
        width: 90%; height: 80%; border: round $warning; background: $surface; padding: 0 1;
    }
    InputEditor TextArea, InputEditor TextArea:focus { height: 1fr; border: none; }
    InputEditor .complaint { color: $text-error; height: auto; }
    """

    def __init__(self, dialog: PermissionDialog) -> None:
        super().__init__()
        self._dialog = dialog
        self._late = False

    @property
    def asked(self) -> PermissionRequested:
        return self._dialog.request

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = Content(formatting.unmarked(self._dialog.request.title))
            area = TextArea(self._dialog.input_text(), language=None, soft_wrap=True)
            area.cursor_blink = False
            yield area
            yield Static("", classes="complaint", markup=False)
            yield Footer()

    def outdated(self) -> None:
        """The request was answered elsewhere; the text can still be copied."""
        self._late = True
        self.query_one(".complaint", Static).update("the request was already answered elsewhere")

    def action_allow(self) -> None:
        if self._late:
            self.dismiss(None)
            return
        answer = self._dialog.edited(self.query_one(TextArea).text)
        if answer:
            self.dismiss(answer)
        else:
            self.query_one(".complaint", Static).update(formatting.one_line(self._dialog.complaint))

    def action_back(self) -> None:
        self.dismiss(None)
