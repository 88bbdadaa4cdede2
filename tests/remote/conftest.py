"""A service to connect to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.surfaces.conftest import Bench
from tests.surfaces.server.service_desk import Desk

pytest.importorskip("starlette")


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """A service for the whole module."""
    bench = Bench(tmp_path_factory.mktemp("house"))
    desk = Desk(bench).open()
    yield desk
    desk.close()
    bench.close()
