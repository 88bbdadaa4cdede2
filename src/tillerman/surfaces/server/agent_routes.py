"""Routes of agents: availability, sign-in state, models, MCP servers."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from msgspec import structs

from tillerman.core.agent_admin import McpServer, McpTool, Model
from tillerman.harness.agent_admin import AgentStatus
from tillerman.harness.harness import Harness
from tillerman.surfaces.query_agents import ask_all
from tillerman.surfaces.rendering.agent_reports import state
from tillerman.surfaces.server import bodies
from tillerman.surfaces.server.route import Call, Route


async def list_agents(call: Call[bodies.AgentsQuery, None]) -> Sequence[bodies.AgentDocument]:
    return await call.service.agents.get(_asked(call.service.harness), fresh=call.query.fresh)


def _asked(harness: Harness) -> Callable[[], Coroutine[Any, Any, Sequence[bodies.AgentDocument]]]:
    async def ask() -> Sequence[bodies.AgentDocument]:
        answers = await ask_all(harness.management.names(), harness.management.report)
        return [_document(one) for one in answers.values() if isinstance(one, AgentStatus)]

    return ask


async def get(call: Call[None, None]) -> bodies.AgentDocument:
    management = call.service.harness.management
    management.agent(call.path["agent"])  # raises if it is unknown
    return _document(await management.report(call.path["agent"]))


async def models(call: Call[None, None]) -> Sequence[Model]:
    return await call.service.harness.management.models(call.path["agent"])


async def servers(call: Call[None, None]) -> Sequence[McpServer]:
    return await call.service.harness.management.mcp_servers(call.path["agent"])


async def add_server(call: Call[None, bodies.AddServer]) -> None:
    await call.service.harness.management.mcp_add(
        call.path["agent"], call.body.name, call.body.config
    )


async def remove_server(call: Call[None, None]) -> None:
    path = call.path
    await call.service.harness.management.mcp_remove(path["agent"], path["server"])


async def switch_server(call: Call[None, bodies.SwitchServer]) -> None:
    path = call.path
    await call.service.harness.management.mcp_switch(path["agent"], path["server"], call.body.on)


async def tools(call: Call[None, None]) -> Sequence[McpTool]:
    path = call.path
    return await call.service.harness.management.mcp_tools(path["agent"], path["server"])


def _document(one: AgentStatus) -> bodies.AgentDocument:
    return bodies.AgentDocument(**structs.asdict(one), state=state(one), ready=one.ready)


ROUTES = (
    Route(
        "GET",
        "/agents",
        "read",
        "List the agents, with their installation and sign-in state",
        list_agents,
        query=bodies.AgentsQuery,
        response=list[bodies.AgentDocument],
    ),
    Route(
        "GET",
        "/agents/{agent}",
        "read",
        "Get one agent",
        get,
        response=bodies.AgentDocument,
    ),
    Route(
        "GET",
        "/agents/{agent}/models",
        "read",
        "List the models of an agent",
        models,
        response=list[Model],
    ),
    Route(
        "GET",
        "/agents/{agent}/servers",
        "read",
        "List the MCP servers configured in an agent",
        servers,
        response=list[McpServer],
    ),
    Route(
        "POST",
        "/agents/{agent}/servers",
        "drive",
        "Add an MCP server to an agent",
        add_server,
        body=bodies.AddServer,
        status=204,
    ),
    Route(
        "DELETE",
        "/agents/{agent}/servers/{server}",
        "drive",
        "Remove an MCP server from an agent",
        remove_server,
        status=204,
    ),
    Route(
        "PATCH",
        "/agents/{agent}/servers/{server}",
        "drive",
        "Enable or disable an MCP server",
        switch_server,
        body=bodies.SwitchServer,
        status=204,
    ),
    Route(
        "GET",
        "/agents/{agent}/servers/{server}/tools",
        "read",
        "List the tools of an MCP server",
        tools,
        response=list[McpTool],
    ),
)
