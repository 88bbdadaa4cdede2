"""A desk that is shared by tests: a CLI is started once, and each test adds turns."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from tests.real.desk import Desk, Player, check_log, of
from tests.real.second_model import SecondModel
from tillerman.core.events import AgentExited, AgentStarted, Entry, TurnEnded, TurnStarted
from tillerman.sessions.session import Session, read_all
from tillerman.testing.model_double.server import ModelDouble

MOST = 3  # that rest at once: each is a process of some hundred megabytes


class StandingDesk(Desk):
    """A session that starts with the options of an idle one reuses that one, as if it started just
    then: `start` starts only sessions that do not exist yet, and those with `anew`."""

    def __init__(self, player: Player, double: ModelDouble | SecondModel, folder: Path) -> None:
        super().__init__(player, double, folder)
        self.anew = False
        self._settings_of: dict[str, str] = {}  # by session
        self._uses: Counter[str] = Counter()
        self._lent: list[Session] = []
        self._resting: dict[str, Session] = {}  # by wishes

    async def start(self, **settings: Any) -> Session:
        settings_key = repr(sorted(({"approve": "auto"} | settings).items()))
        if self.anew:
            await self._clear()
        session = self._resting.pop(settings_key, None)
        if session is None:
            session = await super().start(**settings)
            self._settings_of[session.id] = settings_key
        self._uses[session.id] += 1
        self._lent.append(session)
        past = super().log(session)
        return Later(session, past) if past else session

    async def resume(self, session: str, *, fork: bool = False, **settings: Any) -> Session:
        resumed = await super().resume(session, fork=fork, **settings)
        self._lent.append(resumed)
        return resumed

    def log(self, session: Session) -> list[Entry]:
        entries = super().log(session)
        return session.counted(entries) if isinstance(session, Later) else entries

    async def reopen(self) -> None:
        self._lent.clear()
        self._resting.clear()
        await super().reopen()

    async def rest(self, *, well: bool) -> None:
        """After each test: its sessions are reused by the next ones, if it passed."""
        lent, self._lent = self._lent, []
        if not well:
            await self._clear()
        logs = [list(read_all(self.sessions.log, session.id)) for session in lent]
        for session, log in zip(lent, logs, strict=True):
            settings_key = self._settings_of.get(session.id)
            if well and settings_key and _rests(log):
                if rival := self._resting.pop(settings_key, None):
                    await rival.close()
                self._resting[settings_key] = session
            elif _runs(log):
                await session.close()
        while len(self._resting) > MOST:
            least = min(
                self._resting, key=lambda settings_key: self._uses[self._resting[settings_key].id]
            )
            await self._resting.pop(least).close()
        for path in self.project.iterdir():
            if path.is_dir() and not path.is_symlink():
                if path.name != ".git":
                    shutil.rmtree(path)
            else:
                path.unlink()
        self.double.forget()
        for log in logs:
            if well and _rests(log):
                check_log(log)

    async def _clear(self) -> None:
        self.anew = False
        while self._resting:
            await self._resting.popitem()[1].close()


class Later(Session):
    """A session from here on: its entries and turns are counted from now."""

    def __init__(self, session: Session, past: Sequence[Entry]) -> None:
        self.__dict__.update(session.__dict__)
        self.since = 0
        self._prompted = False
        self._past = len(past)
        self._past_turns = max(entry.turn for entry in past)

    @property
    def last_seq(self) -> int:
        return super().last_seq - self._past

    async def pages_until_idle(self, since: int = 0) -> AsyncIterator[Sequence[Entry]]:
        async for page in super().pages_until_idle(since + self._past):
            yield self.counted(page)

    async def pages(self, since: int = 0) -> AsyncIterator[Sequence[Entry]]:
        async for page in super().pages(since + self._past):
            yield self.counted(page)

    async def entries(self, since: int = 0) -> AsyncIterator[Entry]:
        async for page in self.pages(since):
            for entry in page:
                yield entry

    def counted(self, entries: Sequence[Entry]) -> list[Entry]:
        return [
            replace(entry, seq=entry.seq - self._past, turn=entry.turn - self._past_turns)
            for entry in entries
            if entry.seq > self._past
        ]


def _runs(log: list[Entry]) -> bool:
    return len(of(log, AgentStarted)) > len(of(log, AgentExited))


def _rests(log: list[Entry]) -> bool:
    return _runs(log) and len(of(log, TurnStarted)) == len(of(log, TurnEnded))
