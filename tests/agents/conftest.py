"""A host for agents under test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tillerman.testing.test_host import PlainHost


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[PlainHost]:
    async with PlainHost.open(tmp_path) as host:
        yield host


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder
