"""Interactive view that answers the requests of all sessions: event lines and a dialog."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from tillerman.core.errors import RequestNotOpen, SessionNotFound, TillermanError
from tillerman.core.events import Answer, PermissionRequested, QuestionAsked, RequestAnswered
from tillerman.sessions.request_watch import Change
from tillerman.surfaces.cli.commands.requests_watch import RequestLines
from tillerman.surfaces.cli.views.external_editor import edit
from tillerman.surfaces.cli.views.keyboard import Keyboard
from tillerman.surfaces.rendering import formatting
from tillerman.surfaces.rendering.dialogs import EDIT, Dialog, PermissionDialog, dialog_for

if TYPE_CHECKING:
    from tillerman.harness.harness import Harness

Key = tuple[str, str]  # (session id, request id)


class RequestQueueView:
    def __init__(self, harness: Harness, keyboard: Keyboard, *, color: bool) -> None:
        self._harness = harness
        self._keyboard = keyboard
        self._console = Console(
            no_color=not color, highlight=False, markup=False, emoji=False, force_terminal=True
        )
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._lines = RequestLines()
        self._waiting: dict[Key, PermissionRequested | QuestionAsked] = {}
        self._dialog: Dialog | None = None
        self._at: Key | None = None  # the request shown in the dialog

    async def serve(self, changes: AsyncIterator[Change]) -> None:
        self._keyboard.open()
        self._live.start()
        listening = asyncio.create_task(self._listen())
        try:
            self._draw()
            async for change in changes:
                self._take(change)
                if listening.done():
                    listening.result()  # raises its error
        finally:
            listening.cancel()
            self._live.update(Text(""))
            self._live.stop()
            self._keyboard.close()

    def _take(self, change: Change) -> None:
        event = change.entry.event
        key = (change.entry.session, getattr(event, "request_id", ""))
        match event:
            case PermissionRequested() | QuestionAsked():
                self._waiting[key] = event
            case RequestAnswered():
                self._waiting.pop(key, None)
        for line in self._lines.of(change):
            self._console.print(Text(line), soft_wrap=True)
        self._choose()
        self._draw()

    def _choose(self) -> None:
        """Selects the oldest open request if the current one was answered elsewhere."""
        if self._at in self._waiting:
            return
        self._at = next(iter(self._waiting), None)
        self._dialog = None
        if self._at:
            self._dialog = dialog_for(self._waiting[self._at], self._folder(self._at[0]))
            if not self._keyboard.away:
                self._keyboard.forget()

    def _folder(self, session: str) -> Path:
        try:
            return Path(self._harness.find(session).cwd)
        except SessionNotFound:
            return Path()

    def _draw(self) -> None:
        below: RenderableType = Text("waiting for requests; Ctrl-C to exit", style="dim")
        if self._dialog and self._at:
            more = len(self._waiting) - 1
            about = f"session {self._at[0]}" + (f", {more} more waiting" if more else "")
            below = Group(Text(formatting.one_line(about), style="dim"), self._dialog.draw())
        self._live.update(below, refresh=True)

    async def _listen(self) -> None:
        while True:
            key = await self._keyboard.key()
            if self._dialog is None or self._at is None:
                continue
            dialog, at = self._dialog, self._at
            reply = dialog.press(key)
            if reply == EDIT and isinstance(dialog, PermissionDialog):
                reply = await self._edit(dialog)
            if isinstance(reply, Answer):
                await self._answer(at, reply)
            self._draw()

    async def _edit(self, dialog: PermissionDialog) -> Answer | None:
        self._live.stop()
        try:
            with self._keyboard.suspended():
                text = await asyncio.to_thread(edit, dialog.input_text())
        finally:
            self._live.start()
        return dialog.edited(text)

    async def _answer(self, at: Key, answer: Answer) -> None:
        session, request_id = at
        asked = self._waiting.pop(at, None)
        try:
            await self._harness.attach(session).answer(request_id, answer, surface="terminal")
        except RequestNotOpen:
            pass  # answered elsewhere; the event follows
        except TillermanError as error:
            if asked:
                self._waiting[at] = asked
            self._console.print(Text(f"error: {formatting.one_line(error.message)}", style="red"))
        self._choose()
