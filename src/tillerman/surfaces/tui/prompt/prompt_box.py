"""Prompt box: text input with completion, history, attachments and shell commands."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

from textual import events
from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual.actions import SkipAction
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import TextArea

from tillerman.core.errors import TillermanError
from tillerman.core.terminal_sanitizer import clean
from tillerman.surfaces import prompt_files
from tillerman.surfaces.rendering import formatting
from tillerman.surfaces.tui.prompt.attachments import Attachments, clipboard_image, dropped
from tillerman.surfaces.tui.prompt.cloud_sign import SIGN
from tillerman.surfaces.tui.prompt.completion_sources import (
    CompletedWord,
    CompletionSources,
    word_before,
)
from tillerman.surfaces.tui.prompt.completions import Completion, Completions
from tillerman.surfaces.tui.prompt.file_picker import written
from tillerman.surfaces.tui.prompt.history import HistoryCursor

if TYPE_CHECKING:
    from tillerman.core.agent import File
    from tillerman.core.session_options import WhenBusy

LINES = 10
LONGEST_PASTE = 20_000  # characters; a longer paste becomes an attachment
PLACEHOLDER = "What should I work on?   @ file   ! shell   / command"

# Terminals without the extended key protocol send alt+enter as escape and return.
_known: dict[str, Any] = ANSI_SEQUENCES_KEYS  # type: ignore[assignment]
_known.setdefault("\x1b\r", (SimpleNamespace(value="alt+enter"),))


class PromptBox(TextArea):
    """Completes `commands` after a slash; the arrow keys walk through the prompt history."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "send", "Send", id="send"),
        Binding("ctrl+s", "steer", "Steer", id="steer"),
        Binding("shift+enter,ctrl+j,alt+enter", "new_line", "New line", id="new-line", show=False),
        Binding("ctrl+r", "search_past", "Search history", id="search-history", show=False),
        Binding("tab", "complete", "Complete", id="complete", show=False),
        Binding("escape", "close", "Close list", id="close-list", show=False),
        Binding("up", "cursor_up", "Up, or previous prompt", id="previous-prompt", show=False),
        Binding("down", "cursor_down", "Down, or next prompt", id="next-prompt", show=False),
        Binding("ctrl+v", "paste", "Paste, or attach an image", id="paste", show=False),
        Binding(
            "backspace",
            "delete_left",
            "Delete, or remove an attachment",
            id="delete-left",
            show=False,
        ),
    ]
    DEFAULT_CSS = f"""
    PromptBox {{
        height: auto; min-height: 3; max-height: {LINES + 2};
        border: round $border-blurred; background: $background; scrollbar-size-vertical: 1;
        border-title-color: $text-muted; border-subtitle-color: $text-accent;
    }}
    PromptBox:focus {{ border: round $primary; }}
    PromptBox.-shell, PromptBox.-shell:focus {{ border: round $warning; }}
    PromptBox .text-area--cursor-line {{ background: $background; }}
    """

    class Submitted(Message):
        def __init__(
            self, box: PromptBox, text: str, files: Sequence[File], when_busy: WhenBusy
        ) -> None:
            super().__init__()
            self.box = box
            self.text = text
            self.files = files
            self.when_busy = when_busy

    class Complaint(Message):
        """A file could not be attached."""

        def __init__(self, error: TillermanError) -> None:
            super().__init__()
            self.error = error

    def __init__(self, folder: Path) -> None:
        super().__init__(show_line_numbers=False, soft_wrap=True, placeholder=PLACEHOLDER)
        self.cursor_blink = False
        self.completions = Completions(
            self.action_complete, lambda: self.region.y - self.attachments.region.height
        )
        self.attachments = Attachments(self._update_frame)
        self.sources = CompletionSources(folder)
        self._word: CompletedWord | None = None  # the word to complete
        self._offered: CompletedWord | None = (
            None  # the word shown in the list; a search takes time
        )
        self._left: CompletedWord | None = None  # the word whose list was closed
        self._walk: HistoryCursor | None = None
        self._searching: str | None = None  # the draft during a history search
        self._attaching = 0
        self._send_after: WhenBusy | None = None
        self._busy = False
        self._queued: Sequence[str] = ()
        self._titles = ("", "")  # border title and subtitle

    @property
    def above(self) -> Iterable[Widget]:
        """Widgets to compose above the box."""
        return self.completions, self.attachments

    def belong(self, folder: Path, load: Callable[[], Sequence[str]]) -> None:
        """Sets the folder for file completion and the loader of the prompt history."""
        self.sources.past.read_by(load)
        self.sources.change_folder(folder)

    def on_unmount(self) -> None:
        self.sources.close()

    def render_line(self, y: int) -> Strip:
        """Avoids an error in Textual, which wraps the placeholder even at zero width."""
        return super().render_line(y) if self.content_size.width else Strip.blank(0)

    async def _on_key(self, event: events.Key) -> None:
        """Runs its bindings in typing order; the app would handle them later."""
        bindings = self._bindings.copy()
        bindings.apply_keymap(self.app._keymap)
        for binding in bindings.key_to_bindings.get(event.key, ()):
            if await self.app.run_action(binding.action, self):
                event.stop()
                event.prevent_default()
                break

    # -- sending -----------------------------------------------------------------------------------

    def action_send(self) -> None:
        self._look()
        if self._complete(by_enter=True):
            return
        if self._ends_with_backslash():
            self._replace_before_cursor(1, "\n")
            return
        self._send("queue")

    def action_steer(self) -> None:
        self._send("steer")

    def action_new_line(self) -> None:
        self.insert("\n")

    def _send(self, when_busy: WhenBusy) -> None:
        if self._attaching:
            self._send_after = when_busy
            return
        text = self.text
        if not text.strip():
            if self.attachments.files:
                self.notify("write what to do with the attachment", markup=False)
            return
        self.sources.past.add(text)
        self._walk = None
        self._write("")
        self.post_message(self.Submitted(self, text, self.attachments.take(), when_busy))

    def give_back(self, text: str, files: Sequence[File] = ()) -> None:
        """Restores a prompt that could not be sent, unless new text was typed meanwhile."""
        if not self.text and not self.attachments.files:
            self._write(text)
            self.attachments.add(files)

    def report(self, busy: bool, queued: Sequence[str]) -> None:
        """Updates whether a turn is running, and the queued prompts."""
        if (busy, list(queued)) != (self._busy, list(self._queued)):
            self._busy, self._queued = busy, queued
            self._update_frame()
            self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        match action:
            case "steer":
                return self._busy
            case "close":
                return self.completions.open or self._searching is not None
            case _:
                return super().check_action(action, parameters)

    def _ends_with_backslash(self) -> bool:
        row, column = self.cursor_location
        before = self.document.get_line(row)[:column]
        return before.endswith("\\") and not before.endswith("\\\\")

    def _update_frame(self) -> None:
        shell = self.text.startswith("!") and self._searching is None
        self.set_class(shell, "-shell")
        above, below = "", ""
        if self._searching is not None:
            above = "search history"
        elif shell:
            over = self.text.startswith("!!")
            above = "shell, output is sent to the agent" if over else "shell"
        elif self.text.startswith(SIGN):
            above = "launches a cloud agent"
        if self._queued:
            below = f"{len(self._queued)} queued: {formatting.one_line(self._queued[-1], 30)}"
        if (above, below) != self._titles:  # each assignment causes a redraw
            self._titles = (above, below)
            self.border_title, self.border_subtitle = above, Content(below)

    # -- completion --------------------------------------------------------------------------------

    def on_text_area_changed(self) -> None:
        self._update_frame()
        self._look()

    def on_text_area_selection_changed(self) -> None:
        self._look()

    def on_blur(self) -> None:
        self._close()

    def _look(self) -> None:
        """Updates the completions for the word at the cursor."""
        word = self._at_cursor()
        if word == self._word:
            return
        if word is None or word.is_at_place_of(self._left):
            self._left = self._left if word else None
            self._close()
            return
        self._word, self._left = word, None
        match word.kind:
            case "command":
                self._offer(word, *self.sources.find_commands(word.query))
            case "file":
                self.run_worker(self._offer_files(word), group="files", exclusive=True)
            case "past":
                self.run_worker(self._offer_past(word), group="past", exclusive=True)

    def _at_cursor(self) -> CompletedWord | None:
        if self._searching is not None:
            return CompletedWord("past", self.text)
        if self.selection.start != self.selection.end:
            return None
        row, column = self.cursor_location
        before = self.document.get_line(row)[:column]
        return word_before(row, before, self.text)

    async def _offer_files(self, word: CompletedWord) -> None:
        async with aclosing(self.sources.find_files(word.query)) as found:
            async for choices, note in found:
                if word != self._word:
                    break
                self._offer(word, choices, note)

    async def _offer_past(self, word: CompletedWord) -> None:
        offer = await self.sources.find_prompts(word.query)
        if word == self._word:
            self._offer(word, *offer)

    def _offer(self, word: CompletedWord, choices: Sequence[Completion], note: str = "") -> None:
        self._offered = word
        self.completions.offer(choices, note)

    def action_complete(self) -> None:
        """Completes by tab or mouse click."""
        self._look()
        if not self._complete() and self._word is None:
            raise SkipAction

    def _complete(self, *, by_enter: bool = False) -> bool:
        """Inserts the completion. False if the prompt is to be sent: a command chosen by enter."""
        chosen, word = self.completions.current, self._word
        if chosen is None or word is None:
            return False
        if word != self._offered and not word.accepts(chosen):
            return False
        end = self.cursor_location
        match word.kind:
            case "past":
                self._searching = None
                self._write(chosen.word)
            case "command":
                text = chosen.word if by_enter else f"{chosen.word} "
                self.replace(text, word.start, end, maintain_selection_offset=False)
                if by_enter:
                    self._leave(word)
                    return False
            case "file":
                stays = chosen.word.endswith("/") and not by_enter
                text = written(chosen.word)
                if stays:  # next, complete inside the folder
                    text = text.removesuffix('"')
                else:
                    self._leave(word)
                self.replace(
                    text if stays else f"{text} ", word.start, end, maintain_selection_offset=False
                )
        if not (word.kind == "file" and self._left is None):
            self._close()
        return True

    def action_close(self) -> None:
        """Closes the list; restores the draft after a history search."""
        if self._searching is not None:
            draft, self._searching = self._searching, None
            self._write(draft)
            self._close()
        elif self.completions.open and self._word:
            self._leave(self._word)
        else:
            raise SkipAction

    def _leave(self, word: CompletedWord) -> None:
        self._left = word
        self._close()

    def _close(self) -> None:
        self._word = None
        self.completions.close()

    # -- history -----------------------------------------------------------------------------------

    def action_cursor_up(self, select: bool = False) -> None:
        if self.completions.open and not select:
            self.completions.move(-1)
        elif not select and self.navigator.is_first_wrapped_line(self.selection.end):
            self.run_worker(self._recall(1), group="recall")
        else:
            super().action_cursor_up(select)

    def action_cursor_down(self, select: bool = False) -> None:
        if self.completions.open and not select:
            self.completions.move(1)
        elif not select and self._walk and self.navigator.is_last_wrapped_line(self.selection.end):
            self.run_worker(self._recall(-1), group="recall")
        else:
            super().action_cursor_down(select)

    async def _recall(self, by: int) -> None:
        if self._walk is None or self._walk.text != self.text:
            if by < 0:
                return
            draft = self.text
            past = await self.sources.past.read()
            if self.text != draft:
                return  # the text was edited meanwhile
            if self._walk is None or self._walk.text != draft:
                self._walk = HistoryCursor(draft, past)
        if not self._walk.step(by):
            return
        self._left = CompletedWord("command", "")
        self._write(self._walk.text, at_start=by > 0)
        if self._walk.at_draft:
            self._walk = None

    def action_search_past(self) -> None:
        if self._searching is not None:
            self.completions.move(1)
            return
        self._searching = self.text
        self._write("")
        self._update_frame()
        self._look()

    def _write(self, text: str, *, at_start: bool = False) -> None:
        self.load_text(text)
        lines = text.split("\n")
        self.move_cursor((0, len(lines[0])) if at_start else (len(lines) - 1, len(lines[-1])))

    def _replace_before_cursor(self, count: int, text: str) -> None:
        row, column = self.cursor_location
        self.replace(text, (row, column - count), (row, column), maintain_selection_offset=False)

    # -- attachments -------------------------------------------------------------------------------

    async def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        text = clean(event.text)
        if paths := dropped(text):
            self._take_in(self._read(paths))
        elif len(text) > LONGEST_PASTE:
            name = f"pasted-{len(self.attachments.files) + 1}.txt"
            from tillerman.core.agent import File

            self.attachments.add([File(name, "text/plain", text.encode())])
        elif text and (result := self._replace_via_keyboard(text, *self.selection)):
            self.move_cursor(result.end_location)

    def action_paste(self) -> None:
        """Attaches the image on the desktop clipboard, else pastes the copied text."""

        async def take() -> Sequence[File]:
            image = await clipboard_image(self.sources.folder)
            if image is None:
                super(PromptBox, self).action_paste()
            return [image] if image else []

        self._take_in(take())

    async def _read(self, paths: Sequence[Path]) -> Sequence[File]:
        from tillerman.core.agent import File

        def read() -> list[File]:
            return [File(*prompt_files.read(path)) for path in paths]

        return await asyncio.to_thread(read)

    def _take_in(self, found: Any) -> None:
        async def attach() -> None:
            try:
                self.attachments.add(await found)
            except TillermanError as error:
                self._send_after = None
                self.post_message(self.Complaint(error))
            finally:
                self._attaching -= 1
            if not self._attaching and self._send_after:
                when_busy, self._send_after = self._send_after, None
                self._send(when_busy)

        self._attaching += 1
        self.run_worker(attach(), group="attach")

    def action_delete_left(self) -> None:
        at_start = self.selection.start == self.selection.end == (0, 0)
        if not (at_start and self.attachments.drop()):
            super().action_delete_left()
