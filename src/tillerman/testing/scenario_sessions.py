"""Base class of scenarios: sessions of one agent in a temporary folder."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tillerman.core.agent import Agent, SessionSpec
from tillerman.core.session_options import session_spec
from tillerman.paths import find_paths
from tillerman.sessions.run_settings import RunSettings
from tillerman.sessions.service import Sessions
from tillerman.sessions.session import Session, read_all
from tillerman.store.database import Database
from tillerman.testing.scenario import UnsupportedAction, check_log

_OF_RUN_SETTINGS = frozenset(RunSettings.__struct_fields__)


class ScenarioSessions:
    """A scenario inherits from it and implements `script`.

    `home` is the agent's home; `environment` is added to PATH and HOME.
    """

    at_work = 2.0

    def __init__(
        self,
        agent: Agent,
        folder: Path,
        *,
        server: dict[str, Any] | None = None,
        environment: Mapping[str, str] = {},
        options: Mapping[str, Any] = {},
        differs: Mapping[str, str] = {},
        left_out: Mapping[str, str] = {},
    ) -> None:
        self.agent = agent
        self.project = folder / "project"
        self.home = folder / "home"
        self.server = server or {}
        self.differs = dict(differs)
        self.left_out = dict(left_out)
        self._options = options
        self._environment = {"PATH": os.defpath, "HOME": str(self.home), **environment}
        self._paths = find_paths({"TILLERMAN_HOME": str(folder / "tillerman")})
        self.home.mkdir(parents=True, exist_ok=True)
        self.project.mkdir()
        subprocess.run(["git", "init", "-q", self.project], check=True)
        self._open()

    async def start(self, **wishes: Any) -> Session:
        return await self._sessions.start(self.agent, *self._split(wishes))

    async def resume(self, session: str, *, fork: bool = False) -> Session:
        row = self._sessions.catalog.get(session)
        if fork:
            row = await self._sessions.fork(row)
        return await self._sessions.resume(row, self.agent, *self._split({}))

    async def reopen(self) -> None:
        await self.close()
        self._open()

    async def close(self) -> None:
        """Ends everything that runs, and checks every log."""
        await self._sessions.close()
        log, rows = self._sessions.log, self._sessions.catalog.list()
        logs = [list(read_all(log, row.id)) for row in rows]
        self._database.close()
        for each in logs:
            check_log(each)

    async def requested(self) -> None:
        raise UnsupportedAction("there is no model behind it")

    def age(self, seconds: float) -> None:
        """No effect: a stand-in compares no timestamps."""

    def forget(self) -> None:
        raise UnsupportedAction("nobody has seen how it refuses to resume")

    def left(self) -> list[str]:
        mark = f"HOME={self.home}".encode()
        return [line for line in _processes(mark) if line]

    def _open(self) -> None:
        self._database = Database.open(self._paths.store)
        self._sessions = Sessions(self._paths, self._database)

    def _split(self, wishes: Mapping[str, Any]) -> tuple[SessionSpec, RunSettings]:
        run_settings: dict[str, Any] = {"environment": self._environment}
        run_settings |= {name: value for name, value in wishes.items() if name in _OF_RUN_SETTINGS}
        spec = {name: value for name, value in wishes.items() if name not in _OF_RUN_SETTINGS}
        spec = {"accept_advisory": True} | spec  # the cases detect it themselves
        return session_spec(cwd=self.project, options=self._options, **spec), RunSettings(
            **run_settings
        )


def _processes(mark: bytes) -> list[str]:
    """Pid and command line of processes whose environment contains this `NAME=value`."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark not in (process / "environ").read_bytes().split(b"\0"):
                continue
            words = (process / "cmdline").read_bytes().replace(b"\0", b" ")
        except OSError:
            continue
        found.append(f"{process.name} {words.decode(errors='replace')}")
    return found
