"""Hook dialect of Cursor: 21 events, native replies; one unknown name invalidates hooks.json.

A failed hook is not a deny for Cursor, unless the entry has `failClosed`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from tillerman.agents.cursor.hooks import hook_payloads as events
from tillerman.agents.cursor.hooks.hook_payloads import CursorEvent
from tillerman.agents.cursor.tool_names import NAMES
from tillerman.core import tools
from tillerman.core.events import PermissionRequested
from tillerman.core.json_fields import Table, parse, text
from tillerman.core.version_check import numbers
from tillerman.hooks.dialects.dialect import BRIEF, HookConfigPaths
from tillerman.hooks.dialects.payload_codec import (
    HookEvent,
    UnreadablePayload,
    reply,
    table_of,
    typed,
)
from tillerman.hooks.protocol import HookReply, refusal

MCP = "MCP:"  # prefix of MCP tool names

_FIRST = "0"  # the six initial hooks
_EARLY = "2026.01.28"
_LATE = "2026.09.28"


class CursorHook(NamedTuple):
    told: type[CursorEvent]
    read: type[events.Reply]
    since: str = _EARLY


EVENTS: Mapping[str, CursorHook] = {
    "sessionStart": CursorHook(events.CursorSessionStart, events.SessionStartReply),
    "sessionEnd": CursorHook(events.CursorSessionEnd, events.EmptyReply),
    "beforeSubmitPrompt": CursorHook(events.BeforeSubmitPrompt, events.PromptReply, _FIRST),
    "preToolUse": CursorHook(events.PreToolUse, events.PermissionReply),
    "postToolUse": CursorHook(events.PostToolUse, events.PostToolReply),
    "postToolUseFailure": CursorHook(events.PostToolUseFailure, events.EmptyReply),
    "beforeShellExecution": CursorHook(events.BeforeShellExecution, events.PermissionReply, _FIRST),
    "afterShellExecution": CursorHook(events.AfterShellExecution, events.EmptyReply),
    "beforeMCPExecution": CursorHook(events.BeforeMCPExecution, events.PermissionReply, _FIRST),
    "afterMCPExecution": CursorHook(events.AfterMCPExecution, events.EmptyReply),
    "beforeReadFile": CursorHook(events.BeforeReadFile, events.PermissionReply, _FIRST),
    "afterFileEdit": CursorHook(events.AfterFileEdit, events.EmptyReply, _FIRST),
    "subagentStart": CursorHook(events.CursorSubagentStart, events.PermissionReply),
    "subagentStop": CursorHook(events.CursorSubagentStop, events.StopReply),
    "preCompact": CursorHook(events.PreCompact, events.MessageReply),
    "stop": CursorHook(events.Stop, events.StopReply, _FIRST),
    "afterAgentResponse": CursorHook(events.AfterAgentResponse, events.EmptyReply),
    "afterAgentThought": CursorHook(events.AfterAgentThought, events.EmptyReply),
    "beforeTabFileRead": CursorHook(events.BeforeTabFileRead, events.PermissionReply),
    "afterTabFileEdit": CursorHook(events.AfterTabFileEdit, events.EmptyReply),
    "workspaceOpen": CursorHook(events.WorkspaceOpen, events.PluginsReply, _LATE),
}  # fmt: skip

# The events that block until there is a reply.
GATES = frozenset(
    name
    for name, kind in EVENTS.items()
    if kind.read in (events.PermissionReply, events.PromptReply)
)
# The events before a tool call: together they cover every call at least once.
CALLS = ("preToolUse", "beforeShellExecution", "beforeMCPExecution", "beforeReadFile",
         "subagentStart")  # fmt: skip
CHANGES_INPUT = frozenset({"preToolUse"})
_CAN_ASK = (events.BeforeShellExecution, events.BeforeMCPExecution)
ALSO_RUN_BY: Mapping[str, str] = {}
PLACE = HookConfigPaths(
    project=".cursor/hooks.json",
    user=".cursor/hooks.json",
    frame={"version": 1},
    trust="project hooks apply in folders that Cursor trusts",
)


def known(version: str | None) -> frozenset[str]:
    """The event names that this version of the CLI accepts in a file."""
    own = numbers(version or "") or numbers(_EARLY)
    return frozenset(name for name, kind in EVENTS.items() if numbers(kind.since) <= own)


def read(event: str, payload: bytes) -> HookEvent:
    """Decodes a payload; its event name overrides `event`, which is from our command line."""
    given = table_of(payload)
    if isinstance(given, str):
        return UnreadablePayload(event=event, why=given)
    name = text(given, "hook_event_name")
    name = name if name in EVENTS else event
    if name not in EVENTS:
        return UnreadablePayload(event=name, rest=given, why=f"unknown Cursor event {name!r}")
    return typed(EVENTS[name].told, name, given)


# -- replies ---------------------------------------------------------------------------------------


def allow(event: HookEvent, *, input: Table | None = None) -> HookReply:
    match event:
        case events.PreToolUse():
            return reply(events.PermissionReply(permission="allow", updated_input=input))
        case events.BeforeSubmitPrompt():
            return reply(events.PromptReply(go_on=True))
        case UnreadablePayload():
            return refusal(event.why)
    if event.event in GATES:
        return reply(events.PermissionReply(permission="allow"))
    return nothing(event)


def deny(event: HookEvent, message: str) -> HookReply:
    match event:
        case events.BeforeSubmitPrompt():
            return reply(events.PromptReply(go_on=False, user_message=message))
        case events.BeforeReadFile() | events.BeforeTabFileRead() | events.CursorSubagentStart():
            return reply(events.PermissionReply(permission="deny", user_message=message))
        case CursorEvent() if event.event in GATES:
            reported = events.PermissionReply(
                permission="deny", user_message=message, agent_message=message
            )
            return reply(reported)
    return refusal(message)


def ask(event: HookEvent, message: str) -> HookReply:
    """Lets the CLI ask its user where it can, otherwise denies.

    It can for commands and MCP calls, at a separate event after `preToolUse`.
    """
    if isinstance(event, CursorEvent) and not event.alone:
        if isinstance(event, _CAN_ASK):
            return reply(events.PermissionReply(permission="ask", user_message=message))
        if isinstance(event, events.PreToolUse) and _asked_later(event):
            return nothing(event)
    return deny(event, message)


def nothing(event: HookEvent) -> HookReply:
    return HookReply()


def context(
    event: HookEvent, words: str = "", *, environment: Mapping[str, str] | None = None
) -> HookReply:
    """Text for the model after a tool; at the start of a session also variables for commands."""
    match event:
        case events.CursorSessionStart():
            env = dict(environment or {})
            return reply(events.SessionStartReply(env=env, additional_context=words or None))
        case events.PostToolUse():
            return reply(events.PostToolReply(additional_context=words or None))
    return nothing(event)


def go_on(event: HookEvent, message: str) -> HookReply:
    """Sends the next prompt at the end of a turn. `-p` ignores it."""
    if isinstance(event, events.Stop | events.CursorSubagentStop):
        return reply(events.StopReply(followup_message=message))
    return nothing(event)


# -- permission requests ---------------------------------------------------------------------------


def request_of(event: HookEvent, request_id: str) -> PermissionRequested | None:
    """Decodes a permission request; None if the event is not a tool call."""
    match event:
        case events.PreToolUse():
            name = event.tool_name
            tool = "MCP" if name.startswith(MCP) else NAMES.get(name, name)
            input, shown = event.tool_input, name.removeprefix(MCP)
            call, why = event.tool_use_id, event.agent_message or ""
        case events.BeforeShellExecution():
            tool, shown, call, why = "Bash", "Shell", "", ""
            input = {"command": event.command, "cwd": event.cwd}
        case events.BeforeMCPExecution():
            tool, shown, call, why = "MCP", event.tool_name, "", event.url or event.command
            given = parse(event.tool_input.encode("utf-8", "replace"))
            input = given if isinstance(given, dict) else {"arguments": event.tool_input}
        case events.BeforeReadFile() | events.BeforeTabFileRead():
            tool, shown, call, why = "Read", "Read", "", ""
            input = {"file_path": event.file_path}
        case events.CursorSubagentStart():
            tool, shown, call, why = "Task", "Task", event.tool_call_id, ""
            input = {"description": event.task, "subagent_type": event.subagent_type}
        case _:
            return None
    cwd = next(iter(event.workspace_roots), "")
    return PermissionRequested(
        request_id=request_id,
        tool=tool,
        title=tools.title(tool, input, name=shown, cwd=cwd),
        input=input,
        paths=tools.paths_of(input),
        call_id=call_id(call) or None,
        reason=why,
    )


def call_id(id: str) -> str:
    """Replaces the newline in the id, which must be printable."""
    return id.replace("\n", "/")


def _asked_later(event: events.PreToolUse) -> bool:
    return event.tool_name == "Shell" or event.tool_name.startswith(MCP)


# -- config files ----------------------------------------------------------------------------------


def entry(event: str, command: str, *, timeout: int) -> Table:
    """One entry of the list `hooks.EVENT`; `timeout` in seconds."""
    if event in GATES:
        return {"command": command, "timeout": timeout, "failClosed": True}
    return {"command": command, "timeout": min(timeout, BRIEF)}


def config(
    commands: Mapping[str, str], version: str | None = None, *, timeout: int = 600
) -> dict[str, bytes]:
    """A plugin for `--plugin-dir`: file contents by path, with the events of this version."""
    hooks = {
        event: [entry(event, command, timeout=timeout)]
        for event, command in commands.items()
        if event in known(version)
    }
    about = {
        "name": "tillerman",
        "version": "1.0.0",
        "description": "Asks tillerman before a tool runs",
        "hooks": "./hooks/hooks.json",
    }
    return {
        ".cursor-plugin/plugin.json": msgspec.json.format(msgspec.json.encode(about)),
        "hooks/hooks.json": msgspec.json.format(
            msgspec.json.encode({"version": 1, "hooks": hooks})
        ),
    }
