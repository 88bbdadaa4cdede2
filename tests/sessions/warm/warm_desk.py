"""Warm agents of the mock in a folder: their plans, and the processes that belong to them."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from tillerman.agents.mock import INFO, MockAgent
from tillerman.agents.mock.wire import MockWire
from tillerman.core.agent import StartFiles
from tillerman.core.session_options import session_spec
from tillerman.paths import find_paths
from tillerman.sessions.prestart import Prestart
from tillerman.sessions.run_settings import LaunchPlan, RunSettings
from tillerman.sessions.warm.warm_agents import WarmAgents
from tillerman.supervision.linux import process_table

QUICK = 0.05  # seconds between checks
MAX_WAIT = 20.0
FILES = StartFiles(
    (".mock/settings.json", ".mock/skills", ".mock.json#servers"), ("MOCK_HOME", ".mock")
)


class WarmDesk:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.project = folder / "outer/project"
        self.home.mkdir()
        self.project.mkdir(parents=True)
        self.paths = find_paths({"TILLERMAN_HOME": str(folder / "tillerman")})
        self.agent = MockAgent(replace(INFO, start_files=FILES), MockWire)
        self._pools: list[WarmAgents] = []

    def pool(self, most: int = 2, **bounds: Any) -> WarmAgents:
        pool = WarmAgents(self.paths, most, **{"check": QUICK, **bounds})
        self._pools.append(pool)
        return pool

    def plan(
        self, spec: dict[str, Any] | None = None, run_settings: dict[str, Any] | None = None
    ) -> LaunchPlan:
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.home)}
        settings = {"approve": "auto", "environment": environment, **(run_settings or {})}
        made = session_spec(**{"cwd": self.project, **(spec or {})})
        return LaunchPlan(self.agent, made, RunSettings(**settings))

    def git(self, *words: str) -> None:
        own = ("-c", "user.name=a", "-c", "user.email=a@example.com")
        subprocess.run(
            ["git", *own, *words], cwd=self.project, check=True, stdout=subprocess.DEVNULL
        )

    def repository(self) -> None:
        self.git("init", "-q", "--template=")
        (self.project / "a.txt").write_text("one")
        (self.project / ".gitignore").write_text("ignored\n")
        self.git("add", ".")
        self.git("commit", "-qm", "first")

    def running(self) -> list[int]:
        """Every process below this one that a warden of this desk started, or is."""
        spawns = str(self.paths.spawns).encode()
        table = process_table.snapshot()
        wardens = [
            pid
            for pid in process_table.descendants([os.getpid()], table)
            if spawns in _command(pid) and not table[pid].dead
        ]
        return sorted({*wardens, *process_table.descendants(wardens, table)})

    def end(self, taken: Prestart) -> None:
        taken.drop()
        assert taken.launched.process
        taken.launched.process.communicate()

    async def close(self) -> None:
        for pool in self._pools:
            await pool.close()


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


async def warm(pool: WarmAgents, count: int = 1) -> None:
    await until(lambda: pool.count == count)


async def until(condition: Callable[[], bool], within: float = MAX_WAIT) -> None:
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        await asyncio.sleep(0.02)
