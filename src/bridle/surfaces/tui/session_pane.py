"""One session on the screen: its conversation, what it asks, and the box to speak to it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message
from textual.timer import Timer

from bridle.core.agent import File
from bridle.core.errors import BridleError, RequestNotOpen
from bridle.core.events import Entry
from bridle.core.transcript import Transcript
from bridle.sessions.terms import WhenBusy
from bridle.surfaces.tui.channel import Channel
from bridle.surfaces.tui.conversation import Conversation
from bridle.surfaces.tui.outline import Card, Outline
from bridle.surfaces.tui.prompt_box import PromptBox
from bridle.surfaces.tui.request_prompt import RequestPrompt
from bridle.surfaces.tui.status_bar import Standing

FRAME = 0.05  # seconds between two paints at least
SPIN = 0.125


class SessionPane(Vertical):
    DEFAULT_CSS = """
    SessionPane { height: 1fr; }
    """

    class Changed(Message):
        """What the status bar tells of it may be another now."""

        def __init__(self, pane: SessionPane) -> None:
            super().__init__()
            self.pane = pane

    class Waits(Message):
        """An agent asks something."""

        def __init__(self, pane: SessionPane, title: str) -> None:
            super().__init__()
            self.pane = pane
            self.title = title

    def __init__(self, folder: Path, channel: Channel | None = None, *, id: str) -> None:
        super().__init__(id=id)
        self.channel = channel  # None until the harness is open
        self.outline = Outline()
        self._folder = folder
        self._conversation = Conversation(self.outline)
        self._request = RequestPrompt(folder)
        self.box = PromptBox(folder)
        self._first = 0  # number of the entry before the oldest that is shown
        self._last = 0  # of the newest
        self._last_paint = 0.0
        self._paint_due: asyncio.TimerHandle | None = None
        self._spinner: Timer | None = None
        self._queued = 0

    def compose(self) -> ComposeResult:
        yield self._conversation
        yield self._request
        yield self.box

    def on_mount(self) -> None:
        self._spinner = self.set_interval(SPIN, self._spin, pause=True)
        if self.channel:
            self.begin(self.channel)

    # -- the session -------------------------------------------------------------------------------

    @property
    def transcript(self) -> Transcript:
        return self.outline.transcript

    @property
    def conversation(self) -> Conversation:
        return self._conversation

    def begin(self, channel: Channel) -> None:
        """Shows the end of what was, and follows what comes."""
        self.channel = channel
        self._first, self._last = channel.tail()
        if self._last:
            self.outline.add(channel.past(self._first, self._last))
        self._paint()
        if channel.id:
            self._follow(channel)

    def _follow(self, channel: Channel) -> None:
        self.run_worker(self._live(channel), group="follow", exclusive=True)

    async def _live(self, channel: Channel) -> None:
        try:
            async for page in channel.live(self._last):
                self._take(page)
        except BridleError as error:
            self.complain(error)
        self._stir()

    def _take(self, page: Sequence[Entry]) -> None:
        self.outline.add(page)
        self._last = page[-1].seq
        self._stir()

    def on_conversation_reached_start(self) -> None:
        """More of the past: it is folded anew, since what came later may depend on it."""
        if not self.channel or self._first == 0:
            return
        grown = 2 * (self._last - self._first)
        self._first = max(0, self._last - grown)
        outline = Outline()
        outline.add(self.channel.past(self._first, self._last))
        self.outline = outline
        self._conversation.reopen(outline)

    def prompt(self, text: str, files: Sequence[File] = (), when_busy: WhenBusy = "queue") -> None:
        assert self.channel is not None
        self._attempt(self._prompt(self.channel, text, files, when_busy))

    async def _prompt(
        self, channel: Channel, text: str, files: Sequence[File], when_busy: WhenBusy
    ) -> None:
        self.post_message(self.Changed(self))
        if await channel.prompt(text, files, when_busy):
            self._follow(channel)
        self._conversation.action_end()

    def cancel(self) -> None:
        if self.channel:
            self._attempt(self.channel.cancel())

    def _attempt(self, work: Coroutine[Any, Any, None]) -> None:
        async def attempt() -> None:
            try:
                await work
            except RequestNotOpen:
                pass  # somebody else was first; the log tells who
            except BridleError as error:
                self.complain(error)

        self.run_worker(attempt(), group="said")

    def on_request_prompt_answered(self, message: RequestPrompt.Answered) -> None:
        if self.channel:
            self._attempt(self.channel.answer(message.request_id, message.answer))

    # -- what bridle tells by itself ---------------------------------------------------------------

    def tell(self, card: Card) -> None:
        self.outline.tell(card)
        self._stir()

    def complain(self, error: BridleError) -> None:
        from rich.text import Text

        from bridle.surfaces.drawn import phrases

        body = Text(phrases.one_line(error.message), style="red")
        if error.hint:
            body.append(f"\n{phrases.one_line(error.hint)}", style="not red")
        self.tell(Card("It did not work", body))

    # -- the screen --------------------------------------------------------------------------------

    def _stir(self) -> None:
        """Something is to be painted: at once after a rest, else with the next frame."""
        if self._paint_due is None:
            wait = max(0.0, self._last_paint + FRAME - time.monotonic())
            self._paint_due = asyncio.get_running_loop().call_later(wait, self._paint)

    def _paint(self) -> None:
        self._paint_due = None
        if not self.is_attached:
            return
        with self.app._context():
            self._conversation.show()
            self._ask()
        self._last_paint = time.monotonic()
        if self._spinner:
            if self.transcript.busy and self.channel and self.channel.running:
                self._spinner.resume()
            else:
                self._spinner.pause()
        self.post_message(self.Changed(self))

    def _spin(self) -> None:
        self._conversation.tick += 1
        self._stir()

    def _ask(self) -> None:
        waiting = [request.asked for request in self.transcript.requests.values()]
        had_focus = self._request.has_focus
        fresh = self._request.ask(waiting)
        if fresh:
            if (self.box.has_focus and not self.box.text) or had_focus:
                self._request.focus()
            from bridle.surfaces.drawn import phrases

            self.post_message(self.Waits(self, phrases.asked(waiting[0])))
        elif not waiting and had_focus:
            self.box.focus()

    def standing(self) -> Standing:
        transcript, channel = self.transcript, self.channel
        row = channel.row if channel else None
        wishes = channel.wishes if channel else {}
        turn = transcript.turns[-1] if transcript.turns else None
        working = ""
        if turn and turn.status == "running" and channel and channel.running:
            working = "working" if not transcript.requests else "waits for you"
        elif transcript.background:
            working = "works in the background"
        totals = transcript.totals
        return Standing(
            agent=transcript.agent or (row.agent if row else wishes.get("agent") or ""),
            model=transcript.model or (row.model if row else wishes.get("model")),
            mode=transcript.mode or (row.mode if row else wishes.get("mode")),
            session=channel.id if channel else None,
            totals=totals,
            waiting=len(transcript.requests),
            working=working,
            elsewhere=bool(channel and channel.running and not channel.ours),
        )
