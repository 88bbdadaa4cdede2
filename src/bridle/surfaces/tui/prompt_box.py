"""The box where a person writes what an agent is to do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import TextArea

from bridle.core.agent import File


class PromptBox(TextArea):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "Send", id="send", priority=True),
    ]
    DEFAULT_CSS = """
    PromptBox { height: auto; min-height: 3; max-height: 10; }
    """

    class Submitted(Message):
        def __init__(self, text: str, files: Sequence[File] = ()) -> None:
            super().__init__()
            self.text = text
            self.files = files

    def __init__(self, folder: Path) -> None:
        super().__init__(show_line_numbers=False, soft_wrap=True)
        self.cursor_blink = False
        self._folder = folder

    def action_submit(self) -> None:
        if self.text.strip():
            self.post_message(self.Submitted(self.text))
            self.text = ""
