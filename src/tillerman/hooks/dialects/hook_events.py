"""Typed hook events in the format that most CLIs share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from msgspec import field

from tillerman.core import tools
from tillerman.core.events import PermissionRequested
from tillerman.core.json_fields import Table, text
from tillerman.hooks.dialects.payload_codec import HookEvent


class CommonHookEvent(HookEvent, frozen=True, kw_only=True):
    session_id: str = ""
    transcript_path: str | None = None
    cwd: str = ""
    permission_mode: str = ""
    agent_id: str | None = None  # of a subagent
    agent_type: str | None = None


class SessionStart(CommonHookEvent, frozen=True, kw_only=True):
    source: str = ""
    model: str = ""


class SessionEnd(CommonHookEvent, frozen=True, kw_only=True):
    reason: str = ""


class PromptSubmit(CommonHookEvent, frozen=True, kw_only=True):
    prompt: str


class BeforeTool(CommonHookEvent, frozen=True, kw_only=True):
    tool_name: str
    tool_input: Table
    tool_use_id: str = ""
    tool_call_id: str = ""  # the model's id, if the CLI makes its own
    mcp_context: Table = field(default_factory=dict)


class PermissionAsked(CommonHookEvent, frozen=True, kw_only=True):
    """The CLI is about to ask the user."""

    tool_name: str
    tool_input: Table
    tool_use_id: str = ""


class AfterTool(CommonHookEvent, frozen=True, kw_only=True):
    tool_name: str
    tool_input: Table = field(default_factory=dict)
    tool_response: Any = None
    tool_use_id: str = ""
    tool_call_id: str = ""
    duration_ms: float = 0


class ToolFailed(CommonHookEvent, frozen=True, kw_only=True):
    tool_name: str
    tool_input: Table = field(default_factory=dict)
    error: Any = None
    is_interrupt: bool = False
    tool_use_id: str = ""
    tool_call_id: str = ""
    duration_ms: float = 0


class TurnEnd(CommonHookEvent, frozen=True, kw_only=True):
    """`stop_hook_active`: a hook has already continued the turn at its previous end."""

    stop_hook_active: bool = False
    last_assistant_message: str = ""


class SubagentStart(CommonHookEvent, frozen=True, kw_only=True):
    pass


class SubagentStop(CommonHookEvent, frozen=True, kw_only=True):
    stop_hook_active: bool = False
    last_assistant_message: str = ""


class Compaction(CommonHookEvent, frozen=True, kw_only=True):
    trigger: str = ""


class Notification(CommonHookEvent, frozen=True, kw_only=True):
    message: str = ""
    notification_type: str = ""


class HookKind(NamedTuple):
    told: type[CommonHookEvent]
    since: str = "0"  # the first version whose config accepts it


def request(
    event: HookEvent, request_id: str, *, names: Mapping[str, str], keys: Mapping[str, str]
) -> PermissionRequested | None:
    """Decodes a permission request; `names` and `keys` map native tool names and input keys."""
    if not isinstance(event, BeforeTool | PermissionAsked):
        return None
    tool, name = vocabulary(event.tool_name, names)
    if isinstance(event, BeforeTool) and (server := text(event.mcp_context, "server_name")):
        tool, name = "MCP", f"{server}.{text(event.mcp_context, 'tool_name')}"
    renamed = {} if tool == "Bash" else keys  # the cwd of a shell command is not a file
    input = {renamed.get(key, key): value for key, value in event.tool_input.items()}
    call = event.tool_use_id
    if isinstance(event, BeforeTool):
        call = event.tool_call_id or call
    return PermissionRequested(
        request_id=request_id,
        tool=tool,
        title=tools.title(tool, input, name=name, cwd=event.cwd),
        input=input,
        paths=tools.paths_of(input),
        call_id=call or None,
    )


def vocabulary(name: str, names: Mapping[str, str]) -> tuple[str, str]:
    """Our name for the tool, and its name for users."""
    parts = name.split("__", 2)
    if len(parts) == 3 and parts[0] == "mcp":
        return "MCP", f"{parts[1]}.{parts[2]}"
    return names.get(name, name), name
