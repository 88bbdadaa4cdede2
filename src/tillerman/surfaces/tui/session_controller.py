"""Controls the session of a tab: started by the first prompt, resumed, or attached elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tillerman.core.agent import File, Mode
from tillerman.core.errors import SessionBusy, SessionNotFound
from tillerman.core.events import Answer, Entry
from tillerman.core.session_options import Preset, WhenBusy
from tillerman.sessions.session import AttachedSession, Session

if TYPE_CHECKING:
    from tillerman.config import Config
    from tillerman.harness.harness import Harness
    from tillerman.store.session_row import SessionRow
    from tillerman.surfaces.tui.conversation.welcome import AgentSearch

SURFACE = "terminal"
TAIL = 1_500  # entries read when a session is opened; older ones on scrolling


class SessionController:
    """Options apply until the session runs; then its log and its row are authoritative."""

    def __init__(
        self,
        harness: Harness,
        cwd: Path,
        row: SessionRow | None = None,
        search: AgentSearch | None = None,
        **requested: Any,
    ) -> None:
        self.harness = harness
        self.cwd = Path(row.cwd) if row else cwd
        self.requested = requested  # agent, model, mode, approve
        self._search = search  # finds the agent if none is given
        self._id = row.id if row else None
        self._session: Session | AttachedSession | None = None
        self._deciding = asyncio.Lock()  # held while the owner is looked up or the session starts

    @property
    def id(self) -> str | None:
        """None before the first prompt."""
        return self._id

    @property
    def row(self) -> SessionRow | None:
        """None before the first prompt, after the session was deleted, and while quitting."""
        if self._id is None or self.harness.closed:
            return None
        try:
            return self.harness.find(self._id)
        except SessionNotFound:
            return None

    @property
    def agent(self) -> str | None:
        """The agent that will start the session, if known."""
        return self.requested.get("agent") or (self._search.agent if self._search else None)

    @property
    def ours(self) -> bool:
        """True if this process runs the session."""
        return isinstance(self._session, Session)

    @property
    def running(self) -> bool:
        """True if any process runs the session."""
        return self._session is not None

    @property
    def starting(self) -> bool:
        """True while the session starts; input sent now is applied afterwards."""
        return self._deciding.locked()

    # -- entries -----------------------------------------------------------------------------------

    def tail(self) -> tuple[int, int]:
        """Sequence numbers before the first entry to read at once, and of the last entry."""
        if self._id is None:
            return 0, 0
        last = self.harness.sessions.log.last_seq(self._id)
        return max(0, last - TAIL), last

    def past(self, since: int, until: int) -> list[Entry]:
        assert self._id is not None
        return self.harness.sessions.log.since(self._id, since, until - since)

    async def live(self, since: int) -> AsyncIterator[Sequence[Entry]]:
        """Pages of entries after `since`; ends when no process runs the session."""
        session = await self._found()
        if session is None:
            return
        async for page in session.pages(since):
            yield page
        if self._session is session:
            self._session = None

    async def _found(self) -> Session | AttachedSession | None:
        """The running session, attaching to another process if needed; None if none runs it."""
        async with self._deciding:
            if self._session is None and self._id and await self.harness.sessions.is_run(self._id):
                self._session = self.harness.attach(self._id)
            return self._session

    # -- control -----------------------------------------------------------------------------------

    async def prompt(
        self, text: str, files: Sequence[File] = (), when_busy: WhenBusy = "queue"
    ) -> None:
        if self._id is None and self.agent is None and self._search:
            self.requested["agent"] = await self._search.found()
        async with self._deciding:
            session = self._session or await self._begin()
        await session.prompt(text, files=files, when_busy=when_busy)

    async def _begin(self) -> Session | AttachedSession:
        if self._id is None:
            requested = {name: value for name, value in self.requested.items() if value is not None}
            agent = requested.pop("agent", None)
            self._session = await self.harness.start(
                agent, cwd=self.cwd, check_account=False, **requested
            )
            self._id = self._session.id
            return self._session
        requested = {name: value for name, value in self.requested.items() if name != "agent"}
        try:
            self._session = await self.harness.resume(self._id, **requested)
        except SessionBusy:
            self._session = self.harness.attach(self._id)
        return self._session

    async def answer(self, request_id: str, answer: Answer) -> None:
        session = self._session or self.harness.attach(self._id or "")
        given = session.answer(request_id, answer, surface=SURFACE)
        if given is not None:
            await given

    async def cancel(self) -> None:
        async with self._deciding:
            session = self._session
        if session:
            await session.cancel()

    async def configure(
        self,
        *,
        model: str | None = None,
        mode: Mode | None = None,
        approve: Preset | None = None,
    ) -> None:
        """Applies settings now, or stores them for the next start of the session."""
        given = {"model": model, "mode": mode, "approve": approve}
        given = {name: value for name, value in given.items() if value is not None}
        async with self._deciding:
            session = self._session
        if session:
            await session.configure(model=model, mode=mode, approve=approve)
            self.requested = {**self.requested, **dict.fromkeys(given)}  # now in its log
        else:
            self.requested |= given

    @property
    def approve(self) -> str:
        """The current or future approval preset of the session."""
        row = self.row
        stored = row.settings.get("approve") if row else None
        preset = None if self.running and stored else self.requested.get("approve")
        return str(preset or stored or self.config.approve)

    @property
    def config(self) -> Config:
        """Config in effect in the session's folder."""
        if self.cwd == self.harness.cwd or not self.cwd.is_dir():
            return self.harness.config
        from tillerman.config import load

        return load(self.cwd, paths=self.harness.paths)

    def choose(self, agent: str) -> None:
        """Selects the agent that starts the session; resets the model of the previous agent."""
        self.requested = {**self.requested, "agent": agent, "model": None}

    async def hand_over(self, agent: str) -> None:
        """Hands the session over to another agent; the next prompt gives it the task."""
        assert self._id is not None
        async with self._deciding:
            if isinstance(self._session, Session):
                await self._session.close()
                self._session = None
            self.choose(agent)
            requested = {name: value for name, value in self.requested.items() if name != "agent"}
            self._session = await self.harness.handoff(self._id, agent, **requested)

    async def close(self) -> None:
        async with self._deciding:
            session, self._session = self._session, None
        if isinstance(session, Session):
            await session.close()
