"""A session as one tab has it: begun with its first prompt, gone on with, or run elsewhere."""

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
TAIL = 1_500  # entries that are read when a session is opened; the rest when somebody looks


class SessionController:
    """Wishes count until the session is there; from then on its log and its row say what is."""

    def __init__(
        self,
        harness: Harness,
        cwd: Path,
        row: SessionRow | None = None,
        search: AgentSearch | None = None,
        **wishes: Any,
    ) -> None:
        self.harness = harness
        self.cwd = Path(row.cwd) if row else cwd
        self.wishes = wishes  # agent, model, mode, approve
        self._search = search  # who begins it, where nobody is named
        self._id = row.id if row else None
        self._session: Session | AttachedSession | None = None
        self._deciding = asyncio.Lock()  # who runs it is found out, or it is begun: once

    @property
    def id(self) -> str | None:
        """None before the first prompt."""
        return self._id

    @property
    def row(self) -> SessionRow | None:
        """None before the first prompt, and when somebody has deleted it."""
        try:
            return self.harness.find(self._id) if self._id else None
        except SessionNotFound:
            return None

    @property
    def agent(self) -> str | None:
        """Who begins it, as far as that is known."""
        return self.wishes.get("agent") or (self._search.agent if self._search else None)

    @property
    def ours(self) -> bool:
        """This process runs it."""
        return isinstance(self._session, Session)

    @property
    def running(self) -> bool:
        """Somebody runs it, here or elsewhere."""
        return self._session is not None

    @property
    def starting(self) -> bool:
        """It is about to run: what is said to it now counts from then on."""
        return self._deciding.locked()

    # -- what was, and what happens ----------------------------------------------------------------

    def tail(self) -> tuple[int, int]:
        """Numbers of the entry before the first that is read at once, and of the last."""
        if self._id is None:
            return 0, 0
        last = self.harness.sessions.log.last_seq(self._id)
        return max(0, last - TAIL), last

    def past(self, since: int, until: int) -> list[Entry]:
        assert self._id is not None
        return self.harness.sessions.log.since(self._id, since, until - since)

    async def live(self, since: int) -> AsyncIterator[Sequence[Entry]]:
        """What comes after `since`; ends when nobody runs the session."""
        session = await self._found()
        if session is None:
            return
        async for page in session.pages(since):
            yield page
        if self._session is session:
            self._session = None

    async def _found(self) -> Session | AttachedSession | None:
        """Whoever runs it."""
        async with self._deciding:
            if self._session is None and self._id and await self.harness.sessions.is_run(self._id):
                self._session = self.harness.attach(self._id)
            return self._session

    # -- what is said to it ------------------------------------------------------------------------

    async def prompt(
        self, text: str, files: Sequence[File] = (), when_busy: WhenBusy = "queue"
    ) -> None:
        if self._id is None and self.agent is None and self._search:
            self.wishes["agent"] = await self._search.found()
        async with self._deciding:
            session = self._session or await self._begin()
        await session.prompt(text, files=files, when_busy=when_busy)

    async def _begin(self) -> Session | AttachedSession:
        if self._id is None:
            wishes = {name: value for name, value in self.wishes.items() if value is not None}
            agent = wishes.pop("agent", None)
            self._session = await self.harness.start(agent, cwd=self.cwd, **wishes)
            self._id = self._session.id
            return self._session
        wishes = {name: value for name, value in self.wishes.items() if name != "agent"}
        try:
            self._session = await self.harness.resume(self._id, **wishes)
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
        """Of a session that nobody runs now it is kept for when it goes on."""
        given = {"model": model, "mode": mode, "approve": approve}
        given = {name: value for name, value in given.items() if value is not None}
        async with self._deciding:
            session = self._session
        if session:
            await session.configure(model=model, mode=mode, approve=approve)
            self.wishes = {**self.wishes, **dict.fromkeys(given)}  # its log has it
        else:
            self.wishes |= given

    @property
    def approve(self) -> str:
        """The preset by which its requests are judged, or will be."""
        row = self.row
        kept = row.settings.get("approve") if row else None
        wished = None if self.running and kept else self.wishes.get("approve")
        return str(wished or kept or self.config.approve)

    @property
    def config(self) -> Config:
        """As it counts in the folder of the session."""
        if self.cwd == self.harness.cwd or not self.cwd.is_dir():
            return self.harness.config
        from tillerman.config import load

        return load(self.cwd, paths=self.harness.paths)

    def choose(self, agent: str) -> None:
        """Who begins it; a model that was wished for is another's."""
        self.wishes = {**self.wishes, "agent": agent, "model": None}

    async def hand_over(self, agent: str) -> None:
        """Another agent goes on with the session; the next prompt tells it what to do."""
        assert self._id is not None
        async with self._deciding:
            if isinstance(self._session, Session):
                await self._session.close()
                self._session = None
            self.choose(agent)
            wishes = {name: value for name, value in self.wishes.items() if name != "agent"}
            self._session = await self.harness.handoff(self._id, agent, **wishes)

    async def close(self) -> None:
        async with self._deciding:
            session, self._session = self._session, None
        if isinstance(session, Session):
            await session.close()
