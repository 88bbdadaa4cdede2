"""Whole sessions with the stand-in for Cursor: a real store, a real process, a separate home."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from tests.stand_ins.cursor_stand_in import VERSION, install_cursor
from tillerman.agents import load
from tillerman.core.agent import SessionSpec
from tillerman.core.events import Entry
from tillerman.core.session_options import session_spec
from tillerman.paths import find_paths
from tillerman.sessions.run_settings import RunSettings, TurnLimits
from tillerman.sessions.service import Sessions
from tillerman.sessions.session import Session
from tillerman.store.database import Database

NO_LIMITS = TurnLimits()
OLDER = "2026.07.16-0a1b2c3"  # runs no hooks of a plugin
MODEL = {"version": 1, "model": {"modelId": "composer-2.5"}, "hasChangedDefaultModel": True}


class Desk:
    def __init__(self, folder: Path, version: str = VERSION) -> None:
        self.home = folder / "user"
        self.project = folder / "project"
        self.project.mkdir(parents=True)
        subprocess.run(["git", "init", "-q", "--template=", self.project], check=True)
        install_cursor(folder / "bin", self.home, version=version)
        self.config = self.home / ".cursor" / "cli-config.json"
        self.config.parent.mkdir()
        self.config.write_text(json.dumps(MODEL))
        self.paths = find_paths({"TILLERMAN_HOME": str(folder / "tillerman")})
        self.database = Database.open(self.paths.store)
        self.sessions = Sessions(self.paths, self.database)
        self.agent = load("cursor")
        self.environment = {
            "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
            "HOME": str(self.home),
        }

    async def start(
        self, *, approve: str = "auto", limits: TurnLimits = NO_LIMITS, **spec: Any
    ) -> Session:
        run_settings = self.run_settings(approve, limits)
        return await self.sessions.start(self.agent, self.spec(**spec), run_settings)

    async def resume(self, session: str, *, approve: str = "auto", **spec: Any) -> Session:
        row = self.sessions.catalog.get(session)
        return await self.sessions.resume(
            row, self.agent, self.spec(**spec), self.run_settings(approve)
        )

    def spec(self, **spec: Any) -> SessionSpec:
        return session_spec(cwd=self.project, **spec)

    def run_settings(self, approve: str, limits: TurnLimits = NO_LIMITS) -> RunSettings:
        return RunSettings(approve=approve, environment=self.environment, limits=limits)

    async def close(self) -> None:
        await self.sessions.close()
        self.database.close()


async def perform(session: Session, *steps: dict[str, Any]) -> list[Entry]:
    return [entry async for entry in session.run(script(*steps))]


def script(*steps: dict[str, Any]) -> str:
    return f"@@script@@ {json.dumps(steps)}"
