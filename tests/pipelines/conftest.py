"""A desk with a project, and an engine in this process that runs runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import tillerman
from tests.pipelines.run_desk import Desk
from tillerman.pipelines.engine import Engine


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    made = Desk(tmp_path)
    for name in ("PATH", "TILLERMAN_HOME", "TILLERMAN_MOCK_STATE"):
        monkeypatch.setenv(name, made.environment[name])
    monkeypatch.delenv("TILLERMAN_DATABASE_URL", raising=False)
    return made


@pytest.fixture
async def engine(desk: Desk) -> AsyncIterator[Engine]:
    async with tillerman.open(cwd=desk.project) as harness:
        made = Engine(harness.paths)
        await made.open(harness)
        yield made
        await made.close()
