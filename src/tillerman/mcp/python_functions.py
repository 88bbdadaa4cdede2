"""MCP server of Python functions, built on the SDK."""

from __future__ import annotations

import asyncio
from inspect import isawaitable, iscoroutinefunction
from typing import Any

import mcp_types as types
import msgspec
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server

from tillerman.core.errors import TillermanError
from tillerman.core.program.python_tools import PythonTool, ToolServer
from tillerman.mcp.line_transport import serve_lines

Context = ServerRequestContext[Any, Any]


async def serve_functions(
    functions: ToolServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Serves one client until it disconnects."""
    tools = {tool.name: tool for tool in functions.tools}
    listed = types.ListToolsResult(tools=[_described(tool) for tool in functions.tools])

    async def list_tools(
        context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return listed

    async def call_tool(
        context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        if (tool := tools.get(params.name)) is None:
            return _result(f"there is no tool {params.name!r}", failed=True)
        try:
            return _result(await _called(tool, params.arguments or {}))
        except TillermanError as error:
            return _result(error.message, failed=True)
        except (Exception, SystemExit) as error:  # the program's own code may raise anything
            return _result(f"{tool.name} failed: {type(error).__name__}: {error}", failed=True)

    server: Server[Any] = Server(
        "tillerman-functions", on_list_tools=list_tools, on_call_tool=call_tool
    )
    await serve_lines(server, reader, writer)


async def _called(tool: PythonTool, arguments: dict[str, Any]) -> Any:
    """A plain function runs in a thread, since it may block."""
    if iscoroutinefunction(tool.function):
        return await tool.call(arguments)
    value = await asyncio.to_thread(tool.call, arguments)
    return await value if isawaitable(value) else value


def _result(value: object, *, failed: bool = False) -> types.CallToolResult:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)], is_error=failed
    )


def _described(tool: PythonTool) -> types.Tool:
    return types.Tool(name=tool.name, description=tool.description, input_schema=tool.schema)
