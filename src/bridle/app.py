"""The composition root: a Config becomes a Harness. The only wiring in the program."""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bridle import agents
from bridle.agents.errands import Errands
from bridle.agents.support import refuse_unsupported
from bridle.config import Config, Paths, find_paths, load, private_folder
from bridle.core.agent import (
    Account,
    Agent,
    Installed,
    Model,
    SessionSpec,
    TellsAuth,
    TellsInstall,
    TellsModels,
)
from bridle.core.errors import Unsupported, UsageError
from bridle.core.events import encode
from bridle.sessions.runner import Limits
from bridle.sessions.service import Sessions, Terms
from bridle.sessions.session import AttachedSession, Session, read_all
from bridle.store.database import Database
from bridle.supervision.environment import asked_for, child_environment, secrets_of


@asynccontextmanager
async def open_harness(
    *, config: Config | None = None, cwd: Path | str = ".", paths: Paths | None = None
) -> AsyncIterator[Harness]:
    """Opens the user's store with the config that counts in `cwd`; closes what was started."""
    paths = paths or find_paths()
    database = Database.open(paths.store)
    harness = Harness(config or load(Path(cwd), paths=paths), paths, database)
    try:
        await harness.sessions.recover()
        yield harness
    finally:
        await harness.sessions.close()
        database.close()


class Harness:
    """Everything a surface needs: sessions to start and find, agents to ask."""

    def __init__(self, config: Config, paths: Paths, database: Database) -> None:
        self.config = config
        self.paths = paths
        self.sessions = Sessions(paths, database)

    # -- sessions --------------------------------------------------------------------------------

    async def start(
        self,
        agent: str | None = None,
        *,
        cwd: Path | str = ".",
        title: str | None = None,
        approve: str | None = None,
        timeout: float | None = None,
        env: Sequence[str] = (),
        **wishes: Any,
    ) -> Session:
        """A new session. `wishes` are the fields of `SessionSpec`: model, mode, effort, …"""
        driver, options = self._driver(agent or self.config.agent)
        spec = self._spec(driver, cwd, options, wishes)
        terms = self._terms(driver, approve, timeout, env)
        return await self.sessions.start(driver, spec, terms, title=title)

    async def resume(
        self,
        session: str,
        *,
        fork: bool = False,
        approve: str | None = None,
        timeout: float | None = None,
        env: Sequence[str] = (),
        **wishes: Any,
    ) -> Session:
        """Goes on with a session: its id, the beginning of it, or `last`."""
        row = self.sessions.catalog.get(session, cwd=str(Path.cwd()))
        if fork:
            row = await self.sessions.fork(row)
        driver, options = self._driver(row.agent)
        wishes = {"model": row.model, "mode": row.mode or "agent"} | wishes
        spec = self._spec(driver, row.cwd, options, wishes)
        terms = self._terms(driver, approve or row.settings.get("approve"), timeout, env)
        return await self.sessions.resume(row, driver, spec, terms)

    def attach(self, session: str) -> AttachedSession:
        """A session that another process runs, to follow, answer, prompt or cancel it."""
        return self.sessions.attach(self.sessions.catalog.get(session, cwd=str(Path.cwd())))

    # -- agents ----------------------------------------------------------------------------------

    def agents(self) -> list[str]:
        return list(agents.available())

    def agent(self, name: str) -> Agent:
        return agents.load(name)

    @asynccontextmanager
    async def errands(self, agent: Agent) -> AsyncIterator[Errands]:
        """Runs the agent's own commands, for what it tells besides prompting."""
        child = child_environment(os.environ, agent.info.variables, self.config.env.passed)
        binary = self.config.agents.get(agent.info.name, {}).get("binary")
        async with Errands(
            child.variables,
            binaries={agent.info.binary: binary} if agent.info.binary and binary else {},
            cwd=Path.home(),
            records=self.paths.spawns,
            marker=f"errands-{secrets.token_hex(4)}",
        ) as errands:
            yield errands

    async def installed(self, name: str) -> Installed | None:
        """None for an agent that needs nothing installed."""
        agent = self.agent(name)
        if not isinstance(agent, TellsInstall):
            return None
        async with self.errands(agent) as run:
            return await agent.installed(run)

    async def account(self, name: str) -> Account | None:
        """None for an agent that cannot tell."""
        agent = self.agent(name)
        if not isinstance(agent, TellsAuth):
            return None
        async with self.errands(agent) as run:
            return await agent.account(run)

    async def models(self, name: str) -> Sequence[Model]:
        agent = self.agent(name)
        if not isinstance(agent, TellsModels):
            raise Unsupported(name, "listing its models")
        async with self.errands(agent) as run:
            return await agent.models(run)

    def _driver(self, name: str) -> tuple[Agent, dict[str, Any]]:
        """The agent and its options; `replay:SESSION` and `replay:FILE` name what is played."""
        name, _, argument = name.partition(":")
        options = dict(self.config.agents.get(name, {}))
        if argument and name == "replay":
            options["file"] = str(self._recording(argument))
        elif argument:
            raise UsageError(f"agent {name!r} takes no `:{argument}`")
        return agents.load(name), options

    def _recording(self, argument: str) -> Path:
        if (file := Path(argument)).is_file():
            return file.resolve()
        row = self.sessions.catalog.get(argument, cwd=str(Path.cwd()))
        folder = private_folder(self.paths.cache)
        recording = folder / f"{row.id}.jsonl"
        with recording.open("wb") as out:
            for entry in read_all(self.sessions.log, row.id):
                out.write(encode(entry) + b"\n")
        return recording

    def _spec(
        self,
        agent: Agent,
        cwd: Path | str,
        options: Mapping[str, Any],
        wishes: Mapping[str, Any],
    ) -> SessionSpec:
        given = {name: value for name, value in wishes.items() if value not in (None, (), {})}
        if "model" in agent.info.can and (model := options.get("model") or self.config.model):
            given.setdefault("model", model)
        if "limits" in agent.info.can:
            limits = self.config.limits
            for name, limit in {"max_turns": limits.turns, "max_cost": limits.cost}.items():
                if limit is not None:
                    given.setdefault(name, limit)
        given.setdefault("flags", tuple(options.get("flags", ())))
        given["options"] = {**options, **given.get("options", {})}
        spec = SessionSpec(cwd=Path(cwd).resolve(), **given)
        refuse_unsupported(agent.info, spec)
        return spec

    def _terms(
        self, agent: Agent, approve: str | None, timeout: float | None, env: Sequence[str]
    ) -> Terms:
        passed, given = asked_for(env)
        child = child_environment(
            os.environ, agent.info.variables, [*self.config.env.passed, *passed], given
        )
        limits = self.config.limits
        return Terms(
            approve=approve or self.config.approve,
            supervision=self.config.supervision,
            environment=child.variables,
            secrets=secrets_of({**os.environ, **child.variables}),
            limits=Limits(turn=timeout or limits.total, idle=limits.idle, request=limits.request),
            output_cap=limits.tool_output,
            spill_cap=limits.spill,
            turn_cap=limits.turn_log,
            line_cap=limits.line,
        )
