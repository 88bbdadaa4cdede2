"""Opens the session of an editor: runs its agent here, or follows the process that runs it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tillerman.core.errors import SessionBusy
from tillerman.core.events import Answer
from tillerman.sessions.session import AttachedSession, Session

if TYPE_CHECKING:
    from tillerman.harness.harness import Harness

SURFACE = "editor"
LOOK_AGAIN = 2.0  # seconds between looks whether another process runs the session
REST_MAX_WAIT = 1.0  # seconds for a finished turn to be stored
RESUME_TRIES, RESUME_WAIT = 20, 0.25  # seconds


class SessionHandle:
    """`options` apply whenever this process starts the session's agent."""

    def __init__(
        self, harness: Harness, id: str, options: dict[str, Any], session: Session | None = None
    ) -> None:
        self.options = options
        self.session: Session | AttachedSession | None = session
        self._harness = harness
        self._id = id
        self._restart = False  # a setting applies only to a new process of the agent
        self._deciding = asyncio.Lock()  # held while the session is looked up, opened or closed
        self._look = asyncio.Event()

    async def running(self) -> Session | AttachedSession:
        """Waits until any process runs the session."""
        while True:
            async with self._deciding:
                if self.session is None and await self._harness.sessions.is_run(self._id):
                    self.session = self._harness.attach(self._id)
                if self.session:
                    return self.session
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_AGAIN):
                    await self._look.wait()
            self._look.clear()

    async def left(self, session: Session | AttachedSession) -> None:
        """The log of this run is over."""
        async with self._deciding:
            if self.session is session:
                self.session = None

    async def opened(self) -> Session | AttachedSession:
        """The running session; resumed here if no process runs it."""
        async with self._deciding:
            if self._restart and await self._rests():
                await self._closed()
            if self.session is None:
                self.session = await self._resumed()
            self._look.set()
            return self.session

    async def answer(self, request_id: str, answer: Answer) -> None:
        session = self.session or self._harness.attach(self._id)
        given = session.answer(request_id, answer, surface=SURFACE)
        if given is not None:
            await given

    async def restart_with(self, given: dict[str, Any]) -> None:
        """Starts the agent with these options before the next prompt."""
        async with self._deciding:
            self._refuse_elsewhere()
            self.options |= given
            self._restart = True

    def forget(self, given: dict[str, Any]) -> None:
        """These options are stored with the session now."""
        self.options = {name: value for name, value in self.options.items() if name not in given}

    async def hand_over(self, agent: str) -> None:
        async with self._deciding:
            self._refuse_elsewhere()
            session = self.session
            options = {n: v for n, v in self.options.items() if n not in ("model", "effort")}
            try:
                self.session = await self._harness.handoff(session or self._id, agent, **options)
            finally:
                if isinstance(self.session, Session) and self.session.closed:
                    self.session = None  # the agent could not be started
            self.options = options
            self._look.set()

    async def rest(self) -> None:
        """Waits until no turn runs here, and none is queued."""
        while isinstance(session := self.session, Session) and not session.closed:
            await session.idle()
            if session is self.session:
                return

    async def close(self) -> bool:
        """Ends the session's agent; returns whether it ran here."""
        async with self._deciding:
            ours = isinstance(self.session, Session)
            await self._closed()
        return ours

    def _refuse_elsewhere(self) -> None:
        if isinstance(self.session, AttachedSession):
            raise SessionBusy(
                f"session {self._id} runs in another process",
                hint="change this setting there, or end that process",
            )

    async def _rests(self) -> bool:
        """Whether the session runs here, and no turn: then its agent can be started anew."""
        if not isinstance(self.session, Session):
            return False
        with suppress(TimeoutError):
            async with asyncio.timeout(REST_MAX_WAIT):
                await self.session.idle()
                return True
        return False

    async def _closed(self) -> None:
        session, self.session = self.session, None
        if isinstance(session, Session):
            await session.close()

    async def _resumed(self) -> Session | AttachedSession:
        """Resumes the session. One that just ends elsewhere is waited for."""
        for left in reversed(range(RESUME_TRIES)):
            try:
                session = await self._harness.resume(self._id, **self.options)
            except SessionBusy:
                if await self._harness.sessions.is_run(self._id):
                    return self._harness.attach(self._id)
                if not left:
                    raise
                await asyncio.sleep(RESUME_WAIT)
            else:
                self._restart = False
                return session
        raise AssertionError("unreachable")
