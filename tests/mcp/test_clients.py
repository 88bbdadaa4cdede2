"""Clients over HTTP: one cannot see, read, write to or end what another started."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from tests.mcp.http_desk import SERVE, Door, client, opened, shut
from tests.mcp.mcp_desk import Machine

pytestmark = pytest.mark.timeout(120)

BY_ID: dict[str, dict[str, Any]] = {
    "poll_process": {"wait_ms": 1},
    "read_process_output": {},
    "search_process_output": {"pattern": "mine"},
    "write_process_input": {"text": "x\n"},
    "kill_process": {},
}
NAMES = ("first", "second")


@pytest.fixture(scope="module")
def doors(house: Machine) -> Iterator[list[Door]]:
    """One server, with the shared token and those of two clients."""
    named = [word for name in NAMES for word in ("--client", name)]
    door = opened(house.start(*SERVE, *named, stdin=False))
    found = [door]
    assert door.process.stderr
    for name in NAMES:
        line = door.process.stderr.readline().decode()
        file = Path(line.removeprefix(f"the token of {name} is in ").strip())
        assert file.stat().st_mode & 0o777 == 0o600, line
        found.append(Door(door.port, file.read_text().strip(), file, door.process))
    yield found
    shut(door)


def text(result: Any) -> str:
    return "".join(part.text for part in result.content)


async def begun(made: Client) -> str:
    command = {"command": "echo mine; exec sleep 60", "run_mode": "background"}
    result = await made.call_tool("execute_shell", command)
    process: str = result.meta["tillerman/result"]["process_id"]
    return process


async def listed(made: Client) -> set[str]:
    result = await made.call_tool("list_processes", {"status_filter": "live"})
    assert result.meta
    return {one["process_id"] for one in result.meta["tillerman/result"]["processes"]}


async def seen(made: Client, process: str) -> list[str]:
    """The ways in which another client finds it, or gets an answer unlike that for an unknown
    id."""
    found = []
    for tool, more in BY_ID.items():
        real, none = [
            await made.call_tool(tool, {"process_id": name, **more})
            for name in (process, "p0123456789")
        ]
        if not real.is_error:
            found.append(tool)
        else:
            assert text(real).replace(process, "*") == text(none).replace("p0123456789", "*")
    if process in await listed(made):
        found.append("list_processes")
    if process in str(await made.list_resources()):
        found.append("resources/list")
    if process in str(await made.read_resource("tillerman://workspace")):
        found.append("tillerman://workspace")
    try:
        await made.read_resource(f"tillerman://processes/{process}/stdout")
        found.append("resources/read")
    except MCPError:
        pass
    return found


@asynccontextmanager
async def two(
    doors: list[Door], tokens: tuple[int, int], modes: tuple[str, str]
) -> AsyncIterator[tuple[Client, Client]]:
    async with client(doors[tokens[0]], modes[0]) as one, client(doors[tokens[1]], modes[1]) as two:
        yield one, two


@pytest.mark.parametrize(
    ("tokens", "modes"),
    [
        ((0, 0), ("legacy", "legacy")),
        ((0, 0), ("legacy", "auto")),
        ((0, 0), ("auto", "legacy")),
        ((1, 2), ("auto", "auto")),
        ((0, 1), ("auto", "auto")),
        ((1, 2), ("legacy", "legacy")),
    ],
)
async def test_a_client_does_not_find_another_clients_processes(
    doors: list[Door], tokens: tuple[int, int], modes: tuple[str, str]
) -> None:
    async with two(doors, tokens, modes) as (one, other):
        process = await begun(one)
        assert await seen(other, process) == []
        assert process in await listed(one)
        poll = await one.call_tool("poll_process", {"process_id": process})
        assert "running" in text(poll)
        ended = await one.call_tool("kill_process", {"process_id": process})
        assert not ended.is_error


async def test_a_token_is_one_client_in_all_its_sessions(doors: list[Door]) -> None:
    """Some clients open an MCP session for every call, and end none."""
    async with two(doors, (1, 1), ("legacy", "legacy")) as (one, same):
        process = await begun(one)
        assert process in await listed(same)
        assert not (await same.call_tool("kill_process", {"process_id": process})).is_error


async def test_without_sessions_the_name_of_a_client_counts(doors: list[Door]) -> None:
    async with (
        client(doors[0], "auto", "one") as one,
        client(doors[0], "auto", "one") as same,
        client(doors[0], "auto", "other") as other,
    ):
        process = await begun(one)
        assert await seen(other, process) == []
        assert process in await listed(same)
        assert not (await same.call_tool("kill_process", {"process_id": process})).is_error


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_client_that_returns_with_its_token_finds_what_it_left(
    doors: list[Door], mode: str
) -> None:
    async with client(doors[1], mode) as made:
        process = await begun(made)
    async with client(doors[1], mode) as again, client(doors[2], mode) as other:
        assert process in await listed(again)
        assert await seen(other, process) == []
        assert not (await again.call_tool("kill_process", {"process_id": process})).is_error


async def test_what_a_client_left_is_found_after_a_restart_by_its_token_alone(
    machine: Machine,
) -> None:
    door = opened(machine.start(*SERVE, stdin=False))
    async with client(door, "legacy") as made:
        process = await begun(made)
    shut(door)
    door = opened(machine.start(*SERVE, "--client", "other", stdin=False))
    file = machine.tillerman / "state/mcp-tokens/other"
    stranger = Door(door.port, file.read_text().strip(), file, door.process)
    async with client(door, "legacy") as again, client(stranger, "legacy") as other:
        assert await listed(again) == {process}
        assert await seen(other, process) == []
    shut(door)


def test_a_client_name_is_not_a_path(machine: Machine) -> None:
    for name in ("../x", "a/b", "", ".hidden", "x" * 65):
        refused = machine.run("mcp", "serve", "--http", "0", "--client", name)
        assert refused.returncode == 2 and "Traceback" not in refused.stderr
