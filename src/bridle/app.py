"""The composition root: a Config becomes a Harness. The only wiring in the program."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bridle import agents
from bridle.config import Config, Paths, find_paths, load
from bridle.core.agent import Agent
from bridle.core.errors import StoreDamaged, UsageError
from bridle.order import Order, order
from bridle.sessions.headstart import HeadStart
from bridle.sessions.service import Sessions
from bridle.sessions.session import AttachedSession, Session
from bridle.store.database import Database
from bridle.store.session_row import SessionRow

if TYPE_CHECKING:
    from bridle.core.agent import Account, Installed, Model
    from bridle.management import Management
    from bridle.store.salvage import Report


@asynccontextmanager
async def open_harness(
    *, config: Config | None = None, cwd: Path | str = ".", paths: Paths | None = None
) -> AsyncIterator[Harness]:
    """Opens the user's store with the config that counts in `cwd`; closes what was started."""
    folder = _folder(cwd)
    paths = paths or find_paths()
    database, mended = _open_store(paths.store)
    harness = Harness(config or load(folder, paths=paths), paths, database, folder)
    harness.follows_folder = config is None
    harness.mended = mended
    try:
        await harness.sessions.recover()
        await harness.sessions.expire(harness.config.store.keep_days)
        yield harness
    finally:
        await harness.sessions.close()
        database.close()


def _folder(cwd: Path | str) -> Path:
    try:
        return Path(cwd).resolve()
    except FileNotFoundError:
        raise UsageError("the current folder is gone", hint="`cd` to one that is there") from None


def _open_store(path: Path) -> tuple[Database, Report | None]:
    try:
        return Database.open(path), None
    except StoreDamaged:
        from bridle.store.salvage import open_mended

        return open_mended(path)


class Harness:
    """Everything a surface needs: sessions to start and find, agents to ask."""

    def __init__(self, config: Config, paths: Paths, database: Database, cwd: Path) -> None:
        self.config = config
        self.paths = paths
        self.cwd = cwd
        self.follows_folder = False  # a session of another folder runs under that one's config
        self.mended: Report | None = None  # what was saved of a damaged store, to be told
        self.sessions = Sessions(paths, database)

    # -- sessions --------------------------------------------------------------------------------

    async def start(
        self,
        agent: str | None = None,
        *,
        title: str | None = None,
        head: HeadStart | None = None,
        **wishes: Any,
    ) -> Session:
        """A new session. `wishes`: cwd, approve, timeout, env, and the fields of `SessionSpec`."""
        made = self._order(agent or self.config.agent, {"cwd": self.cwd, **wishes})
        return await self.sessions.start(*made, title=title, head=head)

    async def resume(self, session: str, *, fork: bool = False, **wishes: Any) -> Session:
        """Goes on with a session: its id, the beginning of it, or `last`."""
        row = self.find(session)
        if not Path(row.cwd).is_dir():
            raise UsageError(
                f"the folder of session {row.id} is gone: {row.cwd}",
                hint=f"`bridle sessions show {row.id}` still shows what was said",
            )
        if fork:
            row = await self.sessions.fork(row)
        kept = {"mode": row.mode, "approve": row.settings.get("approve")}
        if "model" in self.agent(row.agent).info.can:
            kept["model"] = row.model
        given = {name: value for name, value in wishes.items() if value is not None}
        config = self.config
        if self.follows_folder and Path(row.cwd) != self.cwd:
            config = load(Path(row.cwd), paths=self.paths)
        made = order(config, row.agent, **{**kept, **given, "cwd": row.cwd})
        return await self.sessions.resume(row, *made)

    def attach(self, session: str) -> AttachedSession:
        """A session that another process runs, to follow, answer, prompt or cancel it."""
        return self.sessions.attach(self.find(session))

    def find(self, session: str) -> SessionRow:
        """By id, by the beginning of one, or `last`, which is the newest of this folder."""
        return self.sessions.catalog.get(session, cwd=str(self.cwd))

    # -- agents ----------------------------------------------------------------------------------

    def agents(self) -> list[str]:
        config = self.config
        return list(agents.available(config.agents, experimental=config.experimental_agents))

    def agent(self, name: str) -> Agent:
        config = self.config
        return agents.load(name, config.agents, experimental=config.experimental_agents)

    @cached_property
    def management(self) -> Management:
        """What agents tell besides prompting."""
        from bridle.management import Management  # not on the way to an agent's start

        return Management(self.config, self.paths)

    async def installed(self, name: str) -> Installed | None:
        """None for an agent that needs nothing installed."""
        return await self.management.installed(name)

    async def account(self, name: str) -> Account | None:
        """None for an agent that cannot tell."""
        return await self.management.account(name)

    async def models(self, name: str) -> Sequence[Model]:
        return await self.management.models(name)

    def _order(self, agent: str, wishes: Mapping[str, Any]) -> Order:
        """`replay:SESSION` and `replay:FILE` name what is played, `acp:COMMAND` what is run."""
        if agent.startswith(agents.AD_HOC):
            return order(self.config, agent, **wishes)
        name, _, argument = agent.partition(":")
        if argument and name != "replay":
            raise UsageError(f"agent {name!r} takes no `:{argument}`")
        if argument:
            options = {**wishes.get("options", {}), "file": str(self._recording(argument))}
            wishes = {**wishes, "options": options}
        return order(self.config, name, **wishes)

    def _recording(self, argument: str) -> Path:
        if (file := Path(argument)).is_file():
            return file.resolve()
        return self.sessions.record(self.find(argument))
