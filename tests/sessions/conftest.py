"""Sessions over a real store and the mock, which is a real child process."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.sessions.session_desk import Desk


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    subprocess.run(["git", "init", "-q", "--template=", folder], check=True)
    return folder


@pytest.fixture
async def desk(tmp_path: Path, project: Path) -> AsyncIterator[Desk]:
    desk = Desk(tmp_path)
    yield desk
    await desk.close()
