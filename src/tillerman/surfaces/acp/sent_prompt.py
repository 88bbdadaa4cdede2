"""A prompt that the editor sent: finds its turn in the log, and waits for the end of the turn."""

from __future__ import annotations

import asyncio
import re
from typing import Any

from tillerman.core.agent import File
from tillerman.core.events import TurnEnded, TurnStarted
from tillerman.sessions.session import AttachedSession, PreparedPrompt, Session
from tillerman.surfaces.acp.prompt_input import EditorPrompt

_SECRET = r"\[secret:[A-Za-z0-9_.-]*\]"  # what a secret is replaced with in the log
CANCELLED = TurnEnded(reason="cancelled")


class SentPrompt:
    def __init__(self) -> None:
        self.ended: asyncio.Future[TurnEnded] = asyncio.get_running_loop().create_future()
        self.cancelled = False  # by this editor
        self._prepared: PreparedPrompt | None = None
        self._sending: asyncio.Future[None] | None = None
        self._elsewhere: str | None = None  # its text, if another process runs the session
        self._turn: int | None = None

    @property
    def turn(self) -> int | None:
        return self._prepared.turn if self._prepared else self._turn

    @property
    def waits(self) -> bool:
        """Whether it was given to the session, and its turn has not begun."""
        return (self._prepared is not None or self._elsewhere is not None) and self.turn is None

    @property
    def is_elsewhere(self) -> bool:
        return self._elsewhere is not None

    async def send(self, session: Session | AttachedSession, prompt: EditorPrompt) -> TurnEnded:
        """Sends the prompt; returns the end of its turn, once the editor was told everything."""
        files: tuple[File, ...] = prompt.files
        if isinstance(session, AttachedSession):
            self._elsewhere = prompt.text
            await session.prompt(prompt.text, files=files)
            return await self.ended
        self._prepared = PreparedPrompt(session, prompt.text, files)
        sending = self._sending = asyncio.ensure_future(self._prepared.send())
        await asyncio.wait({sending})
        if sending.cancelled():
            return CANCELLED
        sending.result()
        idle = asyncio.ensure_future(session.idle())
        ends: set[asyncio.Future[Any]] = {self.ended, idle}
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            idle.cancel()
        if self.turn is None and not self.ended.done():
            return CANCELLED  # another surface withdrew it
        return await self.ended

    async def withdraw(self) -> bool:
        """Takes back a prompt whose turn has not begun; False: it runs, or was not sent."""
        self.cancelled = True
        if self._prepared and self.turn is None:
            if self._sending and not await self._prepared.withdraw():
                self._sending.cancel()
            self.end(CANCELLED)
            return True
        return False

    def release(self) -> None:
        """The prompt is answered."""
        if self._prepared:
            self._turn = self._prepared.turn
            self._prepared.forget()
            self._prepared = None

    def began(self, number: int, event: TurnStarted) -> bool:
        """Whether this turn is the prompt's."""
        if self._prepared:
            return self._prepared.turn == number
        if self._elsewhere is None or self._turn is not None or event.origin != "prompt":
            return False
        if not _is_stored_as(self._elsewhere, event.prompt or ""):
            return False
        self._turn = number
        return True

    def end(self, event: TurnEnded) -> None:
        if not self.ended.done():
            self.ended.set_result(event)

    def fail(self, error: Exception) -> None:
        if not self.ended.done():
            self.ended.set_exception(error)
            self.ended.exception()  # it may have no reader any more


def _is_stored_as(sent: str, stored: str) -> bool:
    """Whether the log has this text, in which secrets may be replaced."""
    if sent == stored:
        return True
    at = 0
    for part in re.split(_SECRET, stored):
        if (found := sent.find(part, at)) < 0:
            return False
        at = found + len(part)
    return re.search(_SECRET, stored) is not None
