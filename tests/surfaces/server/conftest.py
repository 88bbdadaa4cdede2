"""A service for each test, or one for a module whose tests leave it in peace."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.surfaces.conftest import Bench
from tests.surfaces.server.service_desk import Desk

pytest.importorskip("starlette")


@pytest.fixture
def desk(bench: Bench) -> Iterator[Desk]:
    desk = Desk(bench).open()
    yield desk
    desk.close()


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """Of the whole module."""
    bench = Bench(tmp_path_factory.mktemp("house"))
    desk = Desk(bench).open()
    yield desk
    desk.close()
    bench.close()
