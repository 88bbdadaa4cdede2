"""Workspace for MCP benchmarks, and the servers that run in it."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.desktop_commander import PATH
from bench.mcp_client import Client

ECHO = [sys.executable, "-m", "bench.mcp_echo"]
FLOOR = [sys.executable, "-m", "bench.mcp_floor"]


class Place:
    """A workspace with an empty repository, and a home."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.workspace = folder / "workspace"
        self.workspace.mkdir()
        subprocess.run(["git", "init", "-q", self.workspace], check=True)
        self.env = {
            "PATH": PATH,
            "HOME": str(folder),
            "LANG": "C.UTF-8",
            "TILLERMAN_HOME": str(self.home),
            "PYTHONPATH": str(Path(__file__).parents[1]),
        }

    def tillerman(self) -> Client:
        words = [sys.executable, "-m", "tillerman", "mcp", "serve", "--approve", "auto"]
        return Client(words, self.env, self.workspace)

    def echo(self) -> Client:
        return Client(ECHO, self.env, self.workspace)

    def floor(self) -> Client:
        return Client(FLOOR, self.env, self.workspace)


@contextmanager
def a_place() -> Iterator[Place]:
    with tempfile.TemporaryDirectory() as name:
        yield Place(Path(name))
