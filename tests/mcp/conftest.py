"""Machines to serve from: one for each test, or one for a module whose tests do not change it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from tests.mcp.http_desk import SERVE, Door, opened, shut
from tests.mcp.mcp_desk import Machine, Wire


@pytest.fixture
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    machine = Machine(tmp_path_factory.mktemp("machine"))
    yield machine
    machine.close()


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A machine for the whole module."""
    machine = Machine(tmp_path_factory.mktemp("house"))
    yield machine
    machine.close()


@pytest.fixture(scope="module")
def wire(house: Machine) -> Wire:
    """A server that allows what needs no approval, for the whole module."""
    return house.greeted("--approve", "auto", "--request-timeout", "0.2")


@pytest.fixture(scope="module")
def door(house: Machine) -> Iterator[Door]:
    door = opened(
        subprocess.Popen(
            house.command(*SERVE),
            cwd=house.project,
            env=house.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
    )
    yield door
    shut(door)
