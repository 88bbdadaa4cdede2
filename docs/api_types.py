"""Types that the Python API takes and returns, besides the names of `tillerman` itself."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from importlib import import_module

STRUCTS = {
    "tillerman.core.events": (
        "Attachment", "BackgroundTask", "Choice", "Cut", "Diff", "Enforced", "FileChange", "Image",
        "Option", "PlanStep", "Question", "Text",
    ),
    "tillerman.core.failure": ("Failure",),
    "tillerman.core.permission.rules": ("Rule",),
    "tillerman.sessions.request_watch": ("RequestOpened", "RequestResolved"),
    "tillerman.core.transcript.blocks": (
        "Message", "PlanBlock", "RequestBlock", "TextBlock", "Thought", "ToolCallBlock", "Turn",
    ),
    "tillerman.core.transcript.turn_result": ("CallOutcome",),
    "tillerman.agents.stdio.agent": ("StdioAgent",),
    "tillerman.core.agent": ("AgentInfo", "Prompt", "StartFiles"),
    "tillerman.core.contract": ("BuiltFor",),
    "tillerman.core.host": ("SecretFile", "SecretFolder"),
    "tillerman.core.session_spec": (
        "Approval", "NativeLimits", "NativeOptions", "SessionSpec", "ToolSelection",
    ),
    "tillerman.core.wire": ("AttachmentBytes", "Launch", "TemporaryFile", "Wire", "WireReply"),
    "tillerman.core.agent_admin": (
        "Account", "Installed", "McpServer", "McpTool", "Model", "NativeSession",
    ),
    "tillerman.harness.agent_admin": ("AgentAdmin", "AgentStatus"),
    "tillerman.sessions.service": ("Sessions",),
    "tillerman.store.catalog": ("Catalog",),
    "tillerman.store.search": ("Hit", "Search"),
    "tillerman.store.session_row": ("OpenRequest", "SessionRow"),
}  # fmt: skip
SERVICES = {  # the methods for programs, of classes that surfaces use too
    "AgentAdmin": (
        "able", "about", "account", "installed", "lists_models", "login", "logout", "mcp_add",
        "mcp_remove", "mcp_servers", "mcp_switch", "mcp_tools", "models", "names",
        "native_history", "native_sessions", "report",
    ),
    "Rule": ("told",),
    "StdioAgent": (),
    "Catalog": ("count", "get", "list", "open_requests", "rename", "titled"),
    "Search": ("search",),
    "Sessions": ("delete", "fork", "remembered_by", "remembered_in", "watch_requests"),
}  # fmt: skip
ALIASES = {
    "tillerman.core.events": ("Content",),
    "tillerman.core.host": ("Word",),
    "tillerman.core.session_options": ("Preset", "WhenBusy"),
    "tillerman.core.session_spec": ("Mode",),
    "tillerman.core.transcript.blocks": ("Block", "CallState", "Status"),
    "tillerman.core.permission.rules": ("Verdict",),
    "tillerman.sessions.request_watch": ("Change",),
    "tillerman.core.failure": ("FailureKind",),
    "tillerman.core.permission.shell.parsed_script": ("Effect",),
    "tillerman.core.tools": ("ToolClass",),
    "tillerman.harness.harness": ("AnySession",),
}


def structs() -> dict[str, type]:
    """By name, in alphabetical order."""
    found = {
        name: getattr(import_module(module), name)
        for module, names in STRUCTS.items()
        for name in names
    }
    return dict(sorted(found.items()))


def aliases() -> list[list[str]]:
    """Name and value of each, as the source has it."""
    return sorted(
        [f"`{name}`", f"`{value}`"]
        for module, names in ALIASES.items()
        for name, value in _assigned(inspect.getsource(import_module(module)))
        if name in names
    )


def _assigned(source: str) -> Iterator[tuple[str, str]]:
    for node in ast.parse(source).body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, ast.unparse(value).replace("'", '"')
