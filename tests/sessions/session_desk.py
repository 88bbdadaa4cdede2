"""One process's view of the sessions under a folder, with the mock as the agent."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tillerman.agents import load
from tillerman.core.agent import SessionSpec
from tillerman.core.session_options import session_spec
from tillerman.paths import find_paths
from tillerman.sessions.run_settings import RunSettings
from tillerman.sessions.service import Sessions
from tillerman.sessions.session import Session
from tillerman.store.database import Database


class Desk:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.project = folder / "project"
        self.paths = find_paths({"TILLERMAN_HOME": str(folder / "home")})
        self.database = Database.open(self.paths.store)
        self.sessions = Sessions(self.paths, self.database)
        self.agent = load("mock")

    async def start(self, script: str | None = None, **run_settings: Any) -> Session:
        return await self.sessions.start(
            self.agent, self.spec(script), self.run_settings(**run_settings)
        )

    async def resume(self, session: str, script: str | None = None, **run_settings: Any) -> Session:
        row = self.sessions.catalog.get(session)
        return await self.sessions.resume(
            row, self.agent, self.spec(script), self.run_settings(**run_settings)
        )

    def spec(self, script: str | None = None) -> SessionSpec:
        options = {"pace": "0", "state": str(self.folder / "mock")}
        if script:
            options["script"] = script
        return session_spec(cwd=self.project, options=options)

    def run_settings(self, **run_settings: Any) -> RunSettings:
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.folder)}
        return RunSettings(**{"approve": "auto", "environment": environment} | run_settings)

    async def close(self) -> None:
        await self.sessions.close()
        self.database.close()
