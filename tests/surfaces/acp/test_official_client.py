"""The protocol's own Python client drives `tillerman acp -a mock`; it validates every message."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import acp
import pytest
from acp import schema
from acp.client.connection import ClientSideConnection

from tests.surfaces.acp.editor import MAX_WAIT
from tests.surfaces.conftest import Bench

Connect = Callable[..., AbstractAsyncContextManager[ClientSideConnection]]
WRITE = {"write": "made.txt", "text": "made\n"}


class Client(acp.Client):
    """Collects the updates, and answers every request with an option of this kind."""

    def __init__(self, kind: str = "allow_once") -> None:
        self.kind = kind
        self.updates: list[Any] = []
        self.came = asyncio.Event()

    async def request_permission(
        self, session_id: str, tool_call: Any, options: list[Any], **kwargs: Any
    ) -> schema.RequestPermissionResponse:
        option = next(one for one in options if one.kind == self.kind)
        outcome = schema.AllowedOutcome(outcome="selected", option_id=option.option_id)
        return schema.RequestPermissionResponse(outcome=outcome)

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        self.updates.append(update)
        self.came.set()

    async def create_elicitation(self, message: str, mode: Any, **kwargs: Any) -> Any:
        [field] = mode.requested_schema.properties.values()
        assert field.one_of, "the choices are offered"
        return schema.AcceptElicitationResponse(
            action="accept", content={"q1": field.one_of[1].const}
        )

    def on_connect(self, conn: Any) -> None:
        pass

    def of(self, kind: type) -> list[Any]:
        return [update for update in self.updates if isinstance(update, kind)]

    @property
    def said(self) -> str:
        return "".join(update.content.text for update in self.of(schema.AgentMessageChunk))


@pytest.fixture
def connect(bench: Bench) -> Connect:
    @asynccontextmanager
    async def connected(client: Client, *words: str) -> AsyncIterator[ClientSideConnection]:
        command = bench.command("acp", "-a", "mock", *words)
        async with (
            asyncio.timeout(2 * MAX_WAIT),
            acp.spawn_agent_process(
                client,
                command[0],
                *command[1:],
                env=bench.environment,
                cwd=bench.project,
                use_unstable_protocol=True,
            ) as (connection, _),
        ):
            forms = schema.ElicitationCapabilities(form=schema.ElicitationFormCapabilities())
            told = await connection.initialize(
                protocol_version=acp.PROTOCOL_VERSION,
                client_capabilities=schema.ClientCapabilities(elicitation=forms),
            )
            assert told.protocol_version == acp.PROTOCOL_VERSION
            yield connection

    return connected


async def prompt(connection: ClientSideConnection, session: str, *steps: Any) -> str:
    blocks = [acp.text_block(json.dumps(steps))]
    told = await connection.prompt(session_id=session, prompt=blocks)
    return str(told.stop_reason)


async def test_a_turn_with_everything_in_it(connect: Connect, bench: Bench) -> None:
    client = Client()
    async with connect(client) as connection:
        told = await connection.new_session(cwd=str(bench.project), mcp_servers=[])
        (bench.project / "read.txt").write_text("x")
        ended = await prompt(
            connection,
            told.session_id,
            {"think": "so"},
            {"say": "one two three"},
            {"plan": ["look"]},
            {"read": "read.txt"},
            WRITE,
            {"edit": "made.txt", "old": "made", "new": "changed"},
            {"run": "echo hi; exit 3"},
            {"task": "look around", "steps": [{"run": "echo in a subagent"}]},
            {"usage": {"input_tokens": 5, "context_used": 10, "context_limit": 100, "cost_usd": 1}},
            {"say": "done"},
        )
        assert ended == "end_turn"
        assert client.said == "one two threedone"
        kinds = [one.kind for one in client.of(schema.ToolCallStart)]
        assert kinds == ["read", "edit", "edit", "execute", "think", "execute"]
        ended = {one.tool_call_id: one.status for one in client.of(schema.ToolCallProgress)}
        assert list(ended.values()).count("failed") == 1
        [used] = client.of(schema.UsageUpdate)
        assert (used.used, used.size, used.cost.amount) == (10, 100, 1)
        assert client.of(schema.AgentPlanUpdate)[-1].entries[0].content == "look"
        assert (bench.project / "made.txt").read_text() == "changed\n"


@pytest.mark.parametrize(("kind", "made"), [("allow_once", True), ("reject_once", False)])
async def test_permission_is_allowed_and_denied(
    connect: Connect, bench: Bench, kind: str, made: bool
) -> None:
    async with connect(Client(kind)) as connection:
        told = await connection.new_session(cwd=str(bench.project), mcp_servers=[])
        assert await prompt(connection, told.session_id, WRITE) == "end_turn"
    assert (bench.project / "made.txt").exists() is made


async def test_a_turn_is_cancelled(connect: Connect, bench: Bench) -> None:
    client = Client()
    async with connect(client) as connection:
        told = await connection.new_session(cwd=str(bench.project), mcp_servers=[])
        turn = asyncio.create_task(
            prompt(connection, told.session_id, {"say": "now"}, {"hang": True})
        )
        while not client.said:
            await client.came.wait()
            client.came.clear()
        await connection.cancel(session_id=told.session_id)
        assert await turn == "cancelled"
        assert await prompt(connection, told.session_id, {"say": "x"}) == "end_turn"


async def test_a_session_is_loaded_resumed_forked_listed_and_closed(
    connect: Connect, bench: Bench
) -> None:
    cwd = str(bench.project)
    async with connect(Client()) as connection:
        session = (await connection.new_session(cwd=cwd, mcp_servers=[])).session_id
        await prompt(connection, session, {"say": "the bird is a heron"})
    client = Client()
    async with connect(client) as connection:
        [info] = (await connection.list_sessions(cwd=cwd)).sessions
        assert (info.session_id, info.cwd) == (session, cwd)
        await connection.load_session(cwd=cwd, session_id=session, mcp_servers=[])
        while not client.said:
            await client.came.wait()
            client.came.clear()
        assert client.said == "the bird is a heron"
        await prompt(connection, session, {"say": " {before}"})
        assert client.said.count("the bird is a heron") == 2
        fork = await connection.fork_session(cwd=cwd, session_id=session, mcp_servers=[])
        assert await prompt(connection, fork.session_id, {"say": "x"}) == "end_turn"
        await connection.close_session(session_id=fork.session_id)
        await connection.resume_session(cwd=cwd, session_id=fork.session_id, mcp_servers=[])
        assert await prompt(connection, fork.session_id, {"say": "x"}) == "end_turn"


async def test_mode_and_model_are_changed(connect: Connect, bench: Bench) -> None:
    client = Client()
    async with connect(client) as connection:
        told = await connection.new_session(cwd=str(bench.project), mcp_servers=[])
        session = told.session_id
        assert told.modes.current_mode_id == "agent"
        await connection.set_session_mode(session_id=session, mode_id="plan")
        changed = await connection.set_config_option(
            config_id="model", session_id=session, value="mock-deep"
        )
        now = {one.id: one.current_value for one in changed.config_options}
        assert (now["mode"], now["model"]) == ("plan", "mock-deep")
        await prompt(connection, session, {"say": "{mode} {model}"})
    assert client.said == "plan mock-deep"
    assert [one.current_mode_id for one in client.of(schema.CurrentModeUpdate)][-1] == "plan"


async def test_a_question_of_the_agent_is_a_form(connect: Connect, bench: Bench) -> None:
    client = Client()
    async with connect(client) as connection:
        told = await connection.new_session(cwd=str(bench.project), mcp_servers=[])
        choices = [{"label": "Heron"}, {"label": "Stork"}]
        question = {"text": "Which bird?", "header": "Bird", "choices": choices}
        await prompt(connection, told.session_id, {"question": [question]}, {"say": "{answer}"})
    assert client.said == "Stork"


async def test_an_error_has_its_kind_and_hint(connect: Connect, bench: Bench) -> None:
    async with connect(Client()) as connection:
        told = await connection.new_session(cwd=str(bench.project), mcp_servers=[])
        with pytest.raises(acp.RequestError) as refused:
            await prompt(connection, told.session_id, {"fail": "rate_limited", "hint": "wait"})
        assert refused.value.data == {"errorKind": "rate_limited", "hint": "wait"}
