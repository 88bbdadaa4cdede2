"""Sessions over a real store and the mock, which is a real child process."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bridle.agents import load
from bridle.config.paths import find_paths
from bridle.core.agent import SessionSpec
from bridle.sessions.service import Sessions, Terms
from bridle.sessions.session import Session
from bridle.store.database import Database


class Desk:
    """One process's view of the sessions under a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.project = folder / "project"
        self.paths = find_paths({"BRIDLE_HOME": str(folder / "home")})
        self.database = Database.open(self.paths.store)
        self.sessions = Sessions(self.paths, self.database)
        self.agent = load("mock")

    async def start(self, script: str | None = None, **terms: Any) -> Session:
        return await self.sessions.start(self.agent, self.spec(script), self.terms(**terms))

    async def resume(self, session: str, script: str | None = None, **terms: Any) -> Session:
        row = self.sessions.catalog.get(session)
        return await self.sessions.resume(row, self.agent, self.spec(script), self.terms(**terms))

    def spec(self, script: str | None = None) -> SessionSpec:
        options = {"pace": "0", "state": str(self.folder / "mock")}
        if script:
            options["script"] = script
        return SessionSpec(cwd=self.project, options=options)

    def terms(self, **terms: Any) -> Terms:
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.folder)}
        return Terms(**{"approve": "auto", "environment": environment} | terms)

    async def close(self) -> None:
        await self.sessions.close()
        self.database.close()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    subprocess.run(["git", "init", "-q", folder], check=True)
    return folder


@pytest.fixture
async def desk(tmp_path: Path, project: Path) -> AsyncIterator[Desk]:
    desk = Desk(tmp_path)
    yield desk
    await desk.close()
