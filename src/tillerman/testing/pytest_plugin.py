"""Fixtures of pytest for programs that use tillerman: private state, a harness, a mock agent.

| fixture | what it gives |
| --- | --- |
| `tillerman_home` | a new folder for all state of tillerman; no config of the user applies |
| `tillerman_project` | an empty folder to work in |
| `tillerman_sync` | an open `tillerman.sync.SyncHarness` in that folder |
| `tillerman_script` | `tillerman_script(steps, …)`: the options for a mock agent that plays them |
| `tillerman_harness` | an open `tillerman.Harness` in that folder |
| `tillerman_mock` | `await tillerman_mock(steps, …)`: a session whose agent plays the steps |
| `tillerman_replay` | `await tillerman_replay(path)`: a session that plays a recorded one again |

The last three need a plug-in that runs coroutines: pytest-asyncio or anyio.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

TYPE_CHECKING = False  # pytest loads this module at its start, in every project

if TYPE_CHECKING:
    from typing import Any, TypedDict

    from tillerman.sync import SyncHarness

    class MockOptions(TypedDict):
        """The options that start the mock agent with a script."""

        agent: str
        options: dict[str, Any]


def pytest_configure(config: pytest.Config) -> None:
    manager = config.pluginmanager
    if manager.hasplugin("asyncio") or manager.hasplugin("anyio"):
        from tillerman.testing import async_fixtures

        manager.register(async_fixtures, "tillerman-async")


@pytest.fixture
def tillerman_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new folder for all state of tillerman; no config of the user applies."""
    for name in [name for name in os.environ if name.startswith("TILLERMAN_")]:
        monkeypatch.delenv(name)
    home = tmp_path / "tillerman-home"
    home.mkdir()
    monkeypatch.setenv("TILLERMAN_HOME", str(home))
    monkeypatch.setenv("TILLERMAN_MOCK_STATE", str(home / "mock"))
    return home


@pytest.fixture
def tillerman_project(tmp_path: Path) -> Path:
    """An empty folder to work in."""
    folder = tmp_path / "tillerman-project"
    folder.mkdir()
    return folder


@pytest.fixture
def tillerman_sync(tillerman_home: Path, tillerman_project: Path) -> Iterator[SyncHarness]:
    """An open `tillerman.sync.SyncHarness`."""
    from tillerman import sync

    with sync.open(cwd=tillerman_project) as harness:
        yield harness


@pytest.fixture
def tillerman_script(tillerman_home: Path) -> Callable[..., MockOptions]:
    """`harness.start(**tillerman_script(steps, …))`: each list of steps is a turn."""

    def options(*turns: list[dict[str, Any]]) -> MockOptions:
        number = len(list(tillerman_home.glob("script-*.json")))
        script = tillerman_home / f"script-{number}.json"
        script.write_text(json.dumps(list(turns)))
        return {"agent": "mock", "options": {"script": str(script)}}

    return options
