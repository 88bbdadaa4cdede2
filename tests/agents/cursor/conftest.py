from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.agents.cursor.cursor_desk import OLDER, Desk


@pytest.fixture
async def older_desk(tmp_path: Path) -> AsyncIterator[Desk]:
    """A desk with a version of Cursor that does not run hooks of a plugin."""
    desk = Desk(tmp_path, OLDER)
    yield desk
    await desk.close()


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    desk = Desk(tmp_path)
    yield desk
    await desk.close()
