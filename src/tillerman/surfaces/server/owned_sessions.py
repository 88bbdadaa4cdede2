"""Sessions that the service runs: started and prompted here, closed some time after their work."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tillerman.core.agent import File
from tillerman.core.errors import SessionBusy, SessionClosed, SessionError, UsageError
from tillerman.core.session_options import WhenBusy
from tillerman.harness.harness import Harness
from tillerman.sessions.session import Session
from tillerman.store.session_row import SessionRow

MOST_SESSIONS = 64  # each has an agent process
UNPROMPTED = 600.0  # seconds that a session without a prompt is kept
_log = logging.getLogger("tillerman")


class _Held:
    def __init__(self, session: Session, linger: float) -> None:
        self.session = session
        self.linger = linger  # seconds that its agent is kept after the last turn
        self.prompted = asyncio.Event()
        self.keep = UNPROMPTED  # seconds of rest after which it is closed
        self.tending: asyncio.Task[None] | None = None


class OwnedSessions:
    def __init__(self, harness: Harness) -> None:
        self._harness = harness
        self._held: dict[str, _Held] = {}
        self._starting = 0
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def __len__(self) -> int:
        return len(self._held)

    @property
    def working(self) -> list[str]:
        """The sessions that are not idle."""
        return [id for id, one in self._held.items() if not one.session.is_idle]

    async def start(
        self,
        agent: str | None,
        folder: Path,
        options: Mapping[str, Any],
        *,
        title: str | None,
        linger: float,
    ) -> Session:
        with self._room():
            harness = self._harness.in_folder(folder)
            session = await harness.start(agent, cwd=folder, title=title, **options)
            self._hold(session, linger)
        return session

    async def prompt(
        self,
        row: SessionRow,
        text: str,
        files: Sequence[File],
        when_busy: WhenBusy,
        options: Mapping[str, Any],
        linger: float,
    ) -> None:
        """Prompts the session, whoever runs it; resumes it here if nobody does."""
        async with self._locks[row.id]:
            if held := self._held.get(row.id):
                if options and held.session.is_idle:
                    await self._end(held)
                if not held.session.closed:
                    _refuse(options, row.id)
                    held.linger = linger
                    try:
                        await self._send(held, text, files, when_busy)
                        return
                    except SessionClosed:
                        pass
                await self._end(held)
            if await self._harness.sessions.is_run(row.id):
                _refuse(options, row.id)
                attached = self._harness.attach(row.id)
                await attached.prompt(text, files=files, when_busy=when_busy)
                return
            with self._room():
                resumed = self._hold(await self._harness.resume(row.id, **options), linger)
            await self._send(resumed, text, files, when_busy)

    async def hand_off(
        self,
        row: SessionRow,
        agent: str,
        options: Mapping[str, Any],
        linger: float,
        prompt: str | None,
    ) -> None:
        """Continues a session with another agent. It must be idle here, or run nowhere."""
        async with self._locks[row.id]:
            await self.release(row.id)
            with self._room():
                held = self._hold(await self._harness.handoff(row.id, agent, **options), linger)
            if prompt is not None:
                await self._send(held, prompt, (), "queue")

    async def first_prompt(self, session: Session, text: str, files: Sequence[File]) -> None:
        """Sends the prompt that the session is started for; closes it if that fails."""
        try:
            await self._send(self._held[session.id], text, files, "queue")
        except BaseException:
            await session.close()
            raise

    async def close(self, id: str) -> None:
        """Ends the agent of a session that runs here."""
        held = self._held.get(id)
        if held is None:
            raise SessionError(
                f"session {id} is not run by the service",
                hint="only the process that runs a session can close it",
            )
        await self._end(held)

    async def release(self, id: str) -> None:
        """Closes the session if it is idle here, so that it can be deleted."""
        if (held := self._held.get(id)) and held.session.is_idle:
            await self._end(held)

    async def close_all(self) -> None:
        every = list(self._held.values())  # a task that is cancelled forgets its session
        tending = [held.tending for held in every if held.tending]
        for task in tending:
            task.cancel()
        await asyncio.gather(*tending, return_exceptions=True)
        await asyncio.gather(*(held.session.close() for held in every))

    async def _send(
        self, held: _Held, text: str, files: Sequence[File], when_busy: WhenBusy
    ) -> None:
        await held.session.prompt(text, files=files, when_busy=when_busy)
        await held.session.durable()  # "sent" is not said before it is stored
        held.keep = held.linger
        held.prompted.set()

    def _hold(self, session: Session, linger: float) -> _Held:
        held = self._held[session.id] = _Held(session, linger)
        held.tending = asyncio.create_task(self._tend(held))
        return held

    async def _end(self, held: _Held) -> None:
        await held.session.close()
        held.prompted.set()  # wakes the task that tends it
        if held.tending:
            await asyncio.wait([held.tending])

    async def _tend(self, held: _Held) -> None:
        """Closes the session when it has had nothing to do for a while."""
        session = held.session
        try:
            while not session.closed:
                held.prompted.clear()
                await session.idle()
                last = session.last_seq
                with suppress(TimeoutError):
                    async with asyncio.timeout(held.keep):
                        await held.prompted.wait()
                unchanged = session.last_seq == last and not held.prompted.is_set()
                if unchanged and session.is_idle and not self._locks[session.id].locked():
                    break
            await session.close()
        except Exception:
            _log.exception("session %s could not be closed", session.id)
        finally:
            if self._held.get(session.id) is held:
                del self._held[session.id]
            if not self._locks[session.id].locked():
                self._locks.pop(session.id, None)

    @contextmanager
    def _room(self) -> Iterator[None]:
        """Keeps room for a session while it starts."""
        if len(self._held) + self._starting >= MOST_SESSIONS:
            raise SessionBusy(
                f"the service runs {MOST_SESSIONS} sessions already",
                hint="wait until one ends, or close one",
            )
        self._starting += 1
        try:
            yield
        finally:
            self._starting -= 1


def _refuse(options: Mapping[str, Any], id: str) -> None:
    if options:
        names = ", ".join(options)
        raise UsageError(
            f"session {id} is running: {names} cannot be given with a prompt",
            hint="model, mode and approve can be changed with PATCH on its settings",
        )
