"""Live terminal view: draws a session as it runs and shows dialogs for its requests."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Sequence
from contextlib import suppress

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from tillerman.core.errors import RequestNotOpen, TillermanError
from tillerman.core.events import Answer, Entry
from tillerman.surfaces.cli.views.external_editor import edit
from tillerman.surfaces.cli.views.keyboard import Keyboard
from tillerman.surfaces.cli.views.live_screen import LiveScreen
from tillerman.surfaces.cli.views.view import ReachableSession, ViewContext
from tillerman.surfaces.rendering.dialogs import (
    ALL_EDITS,
    EDIT,
    Dialog,
    PermissionDialog,
    dialog_for,
)
from tillerman.surfaces.rendering.turn_outcome import Outcomes

INTERVAL = 0.05  # minimum seconds between refreshes
SPIN = 0.1
FRAME = 0.1  # seconds; a terminal that takes a frame more slowly has not shown it
BACKLOG = 200  # finished blocks; `show` blocks above this


class _ChangingPart:
    """The part below the finished blocks, as it is now.

    `Live.update` takes effect with the next refresh only: printing a block would redraw the
    earlier part once more.
    """

    def __init__(self) -> None:
        self.now: RenderableType = Text("")

    def __rich__(self) -> RenderableType:
        return self.now


class LiveView:
    def __init__(
        self,
        session: ReachableSession,
        scene: ViewContext,
        *,
        color: bool,
        keyboard: Keyboard | None,
    ) -> None:
        self._session = session
        self._folder = scene.folder
        self._drawing = LiveScreen(
            prompts=scene.prompts, resumable=scene.resumable, approve=scene.approve
        )
        self._console = Console(
            no_color=not color, highlight=False, markup=False, emoji=False, force_terminal=True
        )
        self._changing = _ChangingPart()
        self._live = Live(
            self._changing, console=self._console, auto_refresh=False, transient=True,
            redirect_stdout=False, redirect_stderr=False, vertical_overflow="crop",
        )  # fmt: skip
        self._keyboard = keyboard
        self._dialog: Dialog | None = None
        self._drawn: Dialog | None = None  # the dialog of the last frame, perhaps not complete yet
        self._seen: Dialog | None = None  # the dialog of the last complete frame
        self._given: set[str] = set()  # requests answered here
        self._wake = asyncio.Event()  # there is something to draw
        self._painted = asyncio.Event()
        self._closing = asyncio.Event()
        self._screen = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def outcomes(self) -> Outcomes:
        return self._drawing.outcomes

    def open(self) -> None:
        if self._keyboard:
            self._keyboard.open()
            self._tasks.append(asyncio.create_task(self._listen(self._keyboard)))
        self._live.start()
        self._painter = asyncio.create_task(self._keep_painting())
        self._tasks.append(self._painter)

    async def show(self, page: Sequence[Entry]) -> None:
        for entry in page:
            self._drawing.add(entry)
        self._choose_dialog()
        self._wake.set()
        while len(self._drawing.finished) > BACKLOG and not self._painter.done():
            self._painted.clear()
            await self._painted.wait()
        for task in self._tasks:
            if task.done():
                task.result()  # raises its error: the terminal is closed

    async def report(self, text: str) -> None:
        self._drawing.finished.append(Text(text, style="yellow"))
        self._wake.set()

    async def close(self) -> None:
        self._closing.set()
        self._wake.set()
        for task in self._tasks:
            if task is not self._painter:  # it ends after the current frame
                task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._drawing.end()
        self._dialog = None
        try:
            await asyncio.to_thread(self._paint, self._drawing.take(), None)
            await asyncio.to_thread(self._live.stop)
        finally:
            if self._keyboard:
                self._keyboard.close()

    # -- drawing -----------------------------------------------------------------------------------

    async def _keep_painting(self) -> None:
        """Draws in a thread: a blocked terminal must not block the session."""
        try:
            while not self._closing.is_set():
                async with self._screen:
                    pieces, below, dialog = self._drawing.take(), self._below(), self._dialog
                    self._drawn = dialog
                    await asyncio.to_thread(self._paint, pieces, below)
                    self._seen = dialog
                self._painted.set()
                await _wait(self._closing, INTERVAL)
                await _wait(self._wake, SPIN - INTERVAL if self._drawing.moving else None)
                self._wake.clear()
        finally:
            self._painted.set()  # releases `show`, which may be waiting

    def _below(self) -> RenderableType | None:
        dialog = self._dialog.draw(self._room) if self._dialog else None
        parts = [self._drawing.below(), dialog]
        shown = [part for part in parts if part is not None]
        return Group(*shown) if shown else None

    def _room(self) -> int:
        """Maximum lines of a dialog inside its frame, so that its keys stay visible."""
        return max(6, self._console.size.height - 8)

    def _paint(self, pieces: Sequence[RenderableType], below: RenderableType | None) -> None:
        self._changing.now = below if below is not None else Text("")
        if pieces:
            self._console.print(Group(*pieces))  # also redraws the part below
        else:
            self._live.refresh()

    # -- dialogs -----------------------------------------------------------------------------------

    def _choose_dialog(self) -> None:
        """Selects the oldest open request, if the current one was answered elsewhere."""
        if self._keyboard is None:
            return
        open_here = {id: one for id, one in self._drawing.requests.items() if id not in self._given}
        if self._dialog and self._dialog.request.request_id in open_here:
            return
        request = next(iter(open_here.values()), None)
        approve = self._drawing.approve
        self._dialog = dialog_for(request, self._folder, approve) if request else None
        if request and not self._keyboard.away:
            self._keyboard.forget()

    async def _listen(self, keyboard: Keyboard) -> None:
        while True:
            key = await keyboard.key()
            dialog = self._dialog
            if dialog is None or not await self._is_seen(dialog):
                continue  # ignore keys typed before the dialog was drawn
            reply = dialog.press(key)
            if reply == EDIT and isinstance(dialog, PermissionDialog):
                reply = await self._edit(keyboard, dialog)
            if reply == ALL_EDITS and isinstance(dialog, PermissionDialog):
                await self._answer(dialog.request.request_id, dialog.allowed)
                await self._allow_edits()
            elif isinstance(reply, Answer):
                await self._answer(dialog.request.request_id, reply)
            self._wake.set()

    async def _is_seen(self, dialog: Dialog) -> bool:
        """Returns whether the dialog is on the screen. Its frame may be just about complete: the
        terminal shows it before this program knows."""
        if dialog is self._drawn and dialog is not self._seen:
            with suppress(TimeoutError):
                async with asyncio.timeout(FRAME), self._screen:
                    pass
        return dialog is self._seen

    async def _edit(self, keyboard: Keyboard, dialog: PermissionDialog) -> Answer | None:
        async with self._screen:
            await asyncio.to_thread(self._live.stop)
            try:
                with keyboard.suspended():
                    text = await asyncio.to_thread(edit, dialog.input_text())
            finally:
                self._live.start()
        return dialog.edited(text)

    async def _allow_edits(self) -> None:
        try:
            await self._session.configure(approve="edits")
        except TillermanError as error:
            await self.report(f"error: {error.message}")

    async def _answer(self, request_id: str, answer: Answer) -> None:
        self._given.add(request_id)
        try:
            sent = self._session.answer(request_id, answer, surface="terminal")
            if inspect.isawaitable(sent):
                await sent
        except RequestNotOpen:
            pass  # answered elsewhere; the log says by whom
        except TillermanError as error:
            self._given.discard(request_id)
            await self.report(f"error: {error.message}")
        self._choose_dialog()


async def _wait(event: asyncio.Event, seconds: float | None) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
