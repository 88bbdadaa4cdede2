"""MCP resources: the workspace overview, and the output of its processes."""

from __future__ import annotations

import re

import mcp_types as types

from tillerman.sessions.workspace_tools.process_calls import Caller
from tillerman.sessions.workspace_tools.tool_runner import ToolRunner
from tillerman.workspace.files.refusal import Refused

WORKSPACE = "tillerman://workspace"
_OUTPUT = re.compile(r"tillerman://processes/(?P<id>[^/]+)/(?P<stream>stdout|stderr)")

TEMPLATES = [
    types.ResourceTemplate(
        name="process output",
        uri_template="tillerman://processes/{process_id}/{stream}",
        description="the beginning and the end of what a process wrote; stream: stdout or stderr",
        mime_type="text/plain",
    )
]


async def listed(bench: ToolRunner, caller: Caller) -> list[types.Resource]:
    found = [
        types.Resource(
            name="workspace",
            uri=WORKSPACE,
            description="where it is, what is in it, two levels deep, and what runs",
            mime_type="text/plain",
        )
    ]
    outputs = [
        types.Resource(
            name=f"{stream} of {process.id}",
            uri=f"tillerman://processes/{process.id}/{stream}",
            description=bench.clean(process.command)[:200],
            mime_type="text/plain",
        )
        for process in bench.processes(caller)
        for stream in ("stdout", "stderr")
    ]
    return [*found, *outputs]


async def read(bench: ToolRunner, uri: str, caller: Caller) -> types.ReadResourceResult:
    if uri == WORKSPACE:
        text = await bench.overview(caller)
    elif match := _OUTPUT.fullmatch(uri):
        text = await bench.output(match["id"], match["stream"], caller)
    else:
        raise Refused(f"unknown resource: {uri}", hint="see resources/list")
    contents = types.TextResourceContents(uri=uri, mime_type="text/plain", text=text)
    return types.ReadResourceResult(contents=[contents])
