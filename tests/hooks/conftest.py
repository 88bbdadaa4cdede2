from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.hooks.hook_desk import Open
from tillerman.hooks.server import HookAsked, HookServer
from tillerman.hooks.shim_builder import Shim, compiled_shim, python_shim


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def compiled(cache: Path) -> Shim:
    shim = compiled_shim(cache, os.environ.get("PATH"))
    if shim is None:
        pytest.skip("no C compiler here")
    return shim


@pytest.fixture(params=["compiled", "python"])
def shim(request: pytest.FixtureRequest, cache: Path) -> Shim:
    """Each kind of shim."""
    if request.param == "python":
        return python_shim(cache)
    found: Shim = request.getfixturevalue("compiled")
    return found


@pytest.fixture
async def opened(tmp_path: Path, shim: Shim) -> AsyncIterator[Open]:
    """Opens a server that is closed at the end."""
    servers: list[HookServer] = []

    async def open_server(asked: Callable[[HookAsked], None], **more: Any) -> HookServer:
        folder = more.pop("folder", tmp_path / "hooks")
        servers.append(await HookServer.open(folder, asked, **{"shim": shim} | more))
        return servers[-1]

    yield open_server
    for server in servers:
        await server.close()
