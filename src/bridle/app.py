"""The composition root: a Config becomes a Harness. The only wiring in the program."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bridle import agents
from bridle.agents.support import refuse_unsupported
from bridle.config import Config, load
from bridle.core.agent import Agent, SessionSpec
from bridle.sessions.runner import Limits
from bridle.sessions.service import Sessions, Terms
from bridle.sessions.session import AttachedSession, Session
from bridle.store.database import Database
from bridle.supervision.environment import child_environment


@asynccontextmanager
async def open_harness(
    *, config: Config | None = None, cwd: Path | str = "."
) -> AsyncIterator[Harness]:
    """Opens the user's store with the config that counts in `cwd`; closes what was started."""
    config = config or load(Path(cwd))
    database = Database.open(config.paths.store)
    harness = Harness(config, database)
    try:
        yield harness
    finally:
        await harness.sessions.close()
        database.close()


class Harness:
    def __init__(self, config: Config, database: Database) -> None:
        self.config = config
        self.sessions = Sessions(config.paths, database)

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

    def _driver(self, name: str) -> tuple[Agent, dict[str, Any]]:
        """`name:argument` gives the agent its argument, as `replay:SESSION` does."""
        name, _, argument = name.partition(":")
        options = dict(self.config.agents.get(name, {}))
        if argument:
            options["argument"] = argument
        return agents.load(name), options

    def _spec(
        self,
        agent: Agent,
        cwd: Path | str,
        options: Mapping[str, Any],
        wishes: Mapping[str, Any],
    ) -> SessionSpec:
        given = {name: value for name, value in wishes.items() if value not in (None, (), {})}
        given["options"] = {**options, **given.get("options", {})}
        spec = SessionSpec(cwd=Path(cwd).resolve(), **given)
        refuse_unsupported(agent.info, spec)
        return spec

    def _terms(
        self, agent: Agent, approve: str | None, timeout: float | None, env: Sequence[str]
    ) -> Terms:
        limits = self.config.limits
        child = child_environment(
            os.environ, agent.info.variables, passed=self.config.env_pass, given=env
        )
        return Terms(
            approve=approve or self.config.approve,
            supervision=self.config.supervision,
            environment=child.variables,
            secrets=child.secrets,
            limits=Limits(
                turn=timeout or limits.turn_seconds,
                idle=limits.idle_seconds,
                request=limits.request_seconds,
            ),
            output_cap=limits.output_bytes,
            spill_cap=limits.spill_bytes,
            turn_cap=limits.turn_bytes,
            line_cap=limits.line_bytes,
        )
