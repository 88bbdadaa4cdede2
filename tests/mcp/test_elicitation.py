"""A client with elicitation is asked when the policy leaves a decision to the user."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.mcp.mcp_desk import Machine

pytestmark = pytest.mark.timeout(120)

Said = tuple[str, str | None]


class User:
    """The user of a client, with prepared answers."""

    def __init__(self, *answers: Said) -> None:
        self.asked: list[str] = []
        self._answers: Iterator[Said] = iter(answers)

    async def answer(self, context: Any, params: Any) -> types.ElicitResult:
        self.asked.append(params.message)
        action, word = next(self._answers)
        return types.ElicitResult(action=action, content={"answer": word} if word else None)


@asynccontextmanager
async def client(machine: Machine, user: User) -> AsyncIterator[ClientSession]:
    command, *words = machine.command("mcp", "serve", "--request-timeout", "60")
    server = StdioServerParameters(
        command=command, args=words, env=machine.environment, cwd=machine.project
    )
    async with (
        stdio_client(server) as streams,
        ClientSession(*streams, elicitation_callback=user.answer) as session,
    ):
        await session.initialize()
        yield session


async def test_the_users_answer_counts_and_the_whole_of_a_long_command_is_shown(
    machine: Machine,
) -> None:
    user = User(("accept", "allow"), ("accept", "deny"), ("decline", None), ("cancel", None))
    commands = [f"echo {'long ' * 100}end > made{number}" for number in range(4)]
    async with client(machine, user) as session:
        results = [
            await session.call_tool("execute_shell", {"command": command}) for command in commands
        ]
    assert [result.is_error for result in results] == [False, True, True, True]
    assert sorted(path.name for path in machine.project.iterdir()) == ["made0"]
    asked = zip(commands, user.asked, strict=True)
    for command, question in asked:
        assert question.startswith("Bash `echo long") and command in question
    answers = [e["event"] for e in machine.log() if e["event"]["type"] == "request_answered"]
    assert {(one["by"], one["surface"]) for one in answers} == {("person", "mcp")}


async def test_calls_that_need_no_approval_are_not_elicited_and_allow_always_is_elicited_once(
    machine: Machine,
) -> None:
    user = User(("accept", "allow from now on"))
    async with client(machine, user) as session:
        assert not (await session.call_tool("list_directory", {})).is_error
        assert (await session.call_tool("write_file", {"path": ".env", "content": ""})).is_error
        assert user.asked == []
        for _ in range(3):
            result = await session.call_tool("execute_shell", {"command": "touch again"})
            assert not result.is_error
    assert len(user.asked) == 1
