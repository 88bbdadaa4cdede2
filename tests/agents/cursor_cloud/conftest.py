"""A client of a stand-in for the cloud, which waits for milliseconds where it would for seconds."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.stand_ins.cursor_cloud import KEY, CursorCloud, cursor_cloud
from tillerman.agents.cursor_cloud.backoff import Backoff
from tillerman.agents.cursor_cloud.client import CursorCloudClient
from tillerman.agents.cursor_cloud.connection import ApiSettings

FAST = Backoff(base=0.002, cap=0.01, tries=8)
Connect = Callable[..., CursorCloudClient]


@pytest.fixture
async def cloud() -> AsyncIterator[CursorCloud]:
    async with cursor_cloud() as running:
        yield running


@pytest.fixture
async def connect(cloud: CursorCloud, tmp_path: Path) -> AsyncIterator[Connect]:
    made: list[CursorCloudClient] = []

    def connect(
        *, key: str = KEY, backoff: Backoff = FAST, silence: float = 5.0
    ) -> CursorCloudClient:
        settings = ApiSettings(key, cloud.url, backoff, silence)
        made.append(CursorCloudClient(settings, tmp_path / "cache", first_poll=0.01))
        return made[-1]

    yield connect
    for one in made:
        await one.connection.close()


@pytest.fixture
def client(connect: Connect) -> CursorCloudClient:
    return connect()
