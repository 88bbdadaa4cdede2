"""Request prompt below the conversation: shows the oldest open request and takes the answer."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.app import RenderResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widget import Widget

from tillerman.surfaces.rendering.special_keys import (
    BACKSPACE,
    CLEAR,
    DOWN,
    ENTER,
    ESCAPE,
    PAGE_DOWN,
    PAGE_UP,
    UP,
)

if TYPE_CHECKING:
    from tillerman.core.events import Answer, PermissionRequested, QuestionAsked
    from tillerman.surfaces.rendering.dialogs import Dialog, PermissionDialog

    Asked = PermissionRequested | QuestionAsked

GRACE = 0.3  # seconds; an earlier key was pressed before the request was visible
TWICE = 1.0  # seconds; the same key again is a double press, not text for the prompt box
_KEYS = {
    "enter": ENTER, "backspace": BACKSPACE, "escape": ESCAPE, "ctrl+u": CLEAR,
    "up": UP, "down": DOWN, "pageup": PAGE_UP, "pagedown": PAGE_DOWN,
}  # fmt: skip


class RequestPrompt(Widget, can_focus=True):
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "back", "Back", id="back")]
    DEFAULT_CSS = """
    RequestPrompt { height: auto; max-height: 60%; display: none; }
    RequestPrompt.-waits { display: block; }
    """

    class Answered(Message):
        def __init__(self, request_id: str, answer: Answer) -> None:
            super().__init__()
            self.request_id = request_id
            self.answer = answer

    class EditsAllowed(Message):
        """Allows this request and all edits of the session."""

        def __init__(self, request_id: str, answer: Answer) -> None:
            super().__init__()
            self.request_id = request_id
            self.answer = answer

    class EditWanted(Message):
        """The user wants to edit the input before allowing it."""

        def __init__(self, dialog: PermissionDialog) -> None:
            super().__init__()
            self.dialog = dialog

    class TypedOn(Message):
        """A key for the prompt box, since the request was not visible yet."""

        def __init__(self, typed: events.Key | events.Paste) -> None:
            super().__init__()
            self.typed = typed

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self._since = 0.0
        self._last_key, self._last_answer = "", 0.0
        self._passing = False  # keys go to the prompt box until it has the focus
        self._dialog: Dialog | None = None
        self._answered = False  # the log does not report it yet
        self._more = 0

    @property
    def request(self) -> Asked | None:
        return self._dialog.request if self._dialog else None

    def ask(self, waiting: list[Asked], approve: str) -> bool:
        """Updates the open requests, oldest first. True if a new one is shown.

        `approve` is the current approval preset.
        """
        before, more = self.request, self._more
        now = waiting[0] if waiting else None
        self._more = max(0, len(waiting) - 1)
        if (now, self._more) == (before, more):
            return False  # called on every frame
        if now is not None and now != before:  # another session may use the same id
            from tillerman.surfaces.rendering.dialogs import dialog_for

            self._dialog = dialog_for(now, self._folder, approve)
            self._answered = False
        elif now is None:
            self._dialog = None
        self.set_class(now is not None, "-waits")
        if self._dialog:
            self.border_subtitle = f"{self._more} more" if self._more else ""
        self.refresh(layout=True)
        return now is not None and now != before

    def take_keys(self) -> None:
        """Takes the focus without user action; keys count only after a grace period."""
        self._since, self._passing = time.monotonic(), False
        self.focus()

    @property
    def settled(self) -> bool:
        """True after the grace period, when keys are for this request."""
        return time.monotonic() >= self._since + GRACE

    def again(self) -> None:
        """The answer was rejected."""
        self._answered = False

    def render(self) -> RenderResult:
        dark = self.app.current_theme.dark
        return self._dialog.draw(self._most, dark) if self._dialog else ""

    def _most(self) -> int:
        """Maximum lines inside the frame."""
        pane = self.parent
        height = pane.size.height if isinstance(pane, Widget) else 0
        return max(4, height * 6 // 10 - 2)

    def on_key(self, event: events.Key) -> None:
        from tillerman.core.events import Answer
        from tillerman.surfaces.rendering.dialogs import ALL_EDITS, EDIT, PermissionDialog

        key = _KEYS.get(event.key) or (event.character or "")
        if not key or (len(key) == 1 and not key.isprintable() and key not in _KEYS.values()):
            return
        if self._dialog is None:
            self._pass_on(event, key)
            return
        if key == ESCAPE and isinstance(self._dialog, PermissionDialog) and not self._dialog.nested:
            return  # bubbles up and cancels the turn
        if self._answered or self._passing or not self.settled:
            self._pass_on(event, key)
            return
        event.stop()
        event.prevent_default()
        pressed = self._dialog.press(key)
        if pressed == EDIT and isinstance(self._dialog, PermissionDialog):
            self.post_message(self.EditWanted(self._dialog))
        elif pressed == ALL_EDITS and isinstance(self._dialog, PermissionDialog):
            self._answer_given(key)
            allowed = self._dialog.allowed
            self.post_message(self.EditsAllowed(self._dialog.request.request_id, allowed))
        elif isinstance(pressed, Answer):
            self._answer_given(key)
            self.post_message(self.Answered(self._dialog.request.request_id, pressed))
        self.refresh(layout=True)
        self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Enables Escape as "back" only in a nested state; otherwise it cancels the turn."""
        return self._is_nested if action == "back" else True

    def action_back(self) -> None:
        if self._dialog:
            self._dialog.press(ESCAPE)
            self.refresh(layout=True)
            self.refresh_bindings()

    @property
    def _is_nested(self) -> bool:
        from tillerman.surfaces.rendering.dialogs import PermissionDialog

        return isinstance(self._dialog, PermissionDialog) and self._dialog.nested

    def _answer_given(self, key: str) -> None:
        self._answered, self._last_key, self._last_answer = True, key, time.monotonic()

    def _pass_on(self, event: events.Key, key: str) -> None:
        """Forwards a key to the empty prompt box.

        Non-printable keys are dropped until a letter was typed.
        """
        event.stop()
        event.prevent_default()
        if key == self._last_key and time.monotonic() <= self._last_answer + TWICE:
            return
        if self._passing or (len(key) == 1 and key.isprintable()):
            self._passing = True
            self.post_message(self.TypedOn(events.Key(event.key, event.character)))

    def on_blur(self) -> None:
        self._passing = False

    def on_paste(self, event: events.Paste) -> None:
        """Inserts pasted text into the dialog's text input, else forwards it to the prompt box."""
        event.stop()
        if self._dialog and self._dialog.typing:
            for key in event.text:
                if key.isprintable():
                    self._dialog.press(key)
            self.refresh(layout=True)
        else:
            self._passing = True
            self.post_message(self.TypedOn(events.Paste(event.text)))
