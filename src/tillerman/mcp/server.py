"""MCP server of a session's workspace tools and resources, built on the SDK."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from importlib.metadata import version
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from tillerman.core.errors import TillermanError
from tillerman.mcp import resources
from tillerman.mcp.clients import Clients
from tillerman.mcp.direct_calls import META
from tillerman.mcp.elicitation import asking
from tillerman.sessions.workspace_tools.process_calls import Caller
from tillerman.sessions.workspace_tools.tool_runner import EVERYBODY, ToolCallResult, ToolRunner
from tillerman.workspace.tools.tool_schemas import (
    CALLS,
    ToolCallArguments,
    description_of,
    schema_of,
)

Context = ServerRequestContext[Any, Any]

INSTRUCTIONS = (
    "Files and shell processes of one workspace. Paths are relative to it and cannot leave it. "
    "A secret in a file is shown as [secret:NAME]: keep that text when you write the file, and the "
    "secret is put back. "
    "Commands that take long: execute_shell with run_mode async or background, then poll_process "
    "with wait_ms. The resource tillerman://workspace tells what is here and what runs."
)


def workspace_server(
    bench: ToolRunner, *, asks: bool = False, clients: Clients | None = None
) -> Server[Any]:
    """Builds the server. `asks`: the client's user decides what the policy leaves open, if the
    client supports elicitation. `clients` distinguishes several clients."""

    def caller(context: Context) -> Caller:
        return clients.caller(context) if clients else EVERYBODY

    async def list_tools(
        context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=TOOLS)

    async def call_tool(
        context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        async def progress(seconds: float, total: float | None, text: str) -> None:
            await context.session.report_progress(seconds, total, text)

        called = bench.call(
            params.name,
            params.arguments or {},
            progress=progress,
            ask=asking(context.session) if asks else None,
            caller=caller(context),
        )
        return _result(await _whole(called))

    async def list_resources(
        context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=await resources.listed(bench, caller(context)))

    async def list_templates(
        context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=resources.TEMPLATES)

    async def read_resource(
        context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        try:
            return await resources.read(bench, str(params.uri), caller(context))
        except TillermanError as error:
            text = bench.clean(ToolCallResult.refused(error).text)
            raise MCPError(types.INVALID_PARAMS, text) from None

    return Server(
        "tillerman",
        version=version("tillerman"),
        title="tillerman workspace",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
    )


async def _whole(call: Coroutine[Any, Any, ToolCallResult]) -> ToolCallResult:
    """Runs the call in its own task.

    The SDK cancels the awaiting code repeatedly, but a call must be able to end a process or
    withdraw a request when it is cancelled.
    """
    task = asyncio.ensure_future(call)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.cancel()
        raise
    except TillermanError as error:
        return ToolCallResult.refused(error)


def _result(done: ToolCallResult) -> types.CallToolResult:
    """Builds the SDK's result.

    Structured data goes into `_meta`: clients show models structured content instead of the text,
    and escaped lines are hard to read.
    """
    content: list[types.ContentBlock] = [types.TextContent(type="text", text=done.text)]
    if done.image:
        image = types.ImageContent(type="image", data=done.image.data, mime_type=done.image.mime)
        content.append(image)
    return types.CallToolResult(
        content=content,
        is_error=done.outcome != "completed",
        _meta={META: done.data},
    )


def _tool(call: type[ToolCallArguments]) -> types.Tool:
    return types.Tool(
        name=call.name,
        title=call.title,
        description=description_of(call),
        input_schema=schema_of(call),
        annotations=types.ToolAnnotations(
            title=call.title,
            read_only_hint=call.reads_only,
            destructive_hint=not call.reads_only,
            open_world_hint=call.name == "execute_shell",
        ),
    )


TOOLS = [_tool(call) for call in CALLS.values()]
