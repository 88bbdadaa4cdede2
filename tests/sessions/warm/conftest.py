"""A desk with warm agents for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.sessions.warm.warm_desk import WarmDesk


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[WarmDesk]:
    desk = WarmDesk(tmp_path)
    yield desk
    await desk.close()
    assert desk.running() == []
