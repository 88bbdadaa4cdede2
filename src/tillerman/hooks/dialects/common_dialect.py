"""Base hook dialect: the format that most CLIs share, with variations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import msgspec

from tillerman.core.events import PermissionRequested
from tillerman.core.json_fields import Table
from tillerman.core.version_check import numbers
from tillerman.hooks.dialects import hook_events
from tillerman.hooks.dialects.dialect import BRIEF, HookConfigPaths
from tillerman.hooks.dialects.hook_events import HookKind
from tillerman.hooks.dialects.payload_codec import (
    HookEvent,
    UnreadablePayload,
    reply,
    table_of,
    typed,
)
from tillerman.hooks.protocol import HookReply, refusal


class CommonHookDialect:
    """A CLI with the hook events and replies that most of them have."""

    EVENTS: ClassVar[Mapping[str, HookKind]] = {
        "SessionStart": HookKind(hook_events.SessionStart),
        "SessionEnd": HookKind(hook_events.SessionEnd),
        "UserPromptSubmit": HookKind(hook_events.PromptSubmit),
        "PreToolUse": HookKind(hook_events.BeforeTool),
        "PermissionRequest": HookKind(hook_events.PermissionAsked),
        "PostToolUse": HookKind(hook_events.AfterTool),
        "PostToolUseFailure": HookKind(hook_events.ToolFailed),
        "Stop": HookKind(hook_events.TurnEnd),
        "SubagentStart": HookKind(hook_events.SubagentStart),
        "SubagentStop": HookKind(hook_events.SubagentStop),
        "PreCompact": HookKind(hook_events.Compaction),
        "Notification": HookKind(hook_events.Notification),
    }
    CALLS: ClassVar[tuple[str, ...]] = ("PreToolUse",)
    CHANGES_INPUT: ClassVar[frozenset[str]] = frozenset({"PreToolUse"})
    NAMES: ClassVar[Mapping[str, str]] = {}  # native tool names
    INPUT: ClassVar[Mapping[str, str]] = {}  # native input keys for which we use another name
    UNIT: ClassVar[int] = 1  # units of its timeouts per second
    PLACE: ClassVar[HookConfigPaths]
    ALSO_RUN_BY: ClassVar[Mapping[str, str]] = {}

    @property
    def GATES(self) -> frozenset[str]:
        gates = (hook_events.BeforeTool, hook_events.PermissionAsked, hook_events.PromptSubmit)
        return frozenset(name for name, kind in self.EVENTS.items() if kind.told in gates)

    def known(self, version: str | None) -> frozenset[str]:
        """The events that this version supports; for an unknown version, those of the oldest."""
        own = numbers(version or "") or (0,)
        return frozenset(n for n, kind in self.EVENTS.items() if numbers(kind.since) <= own)

    def read(self, event: str, payload: bytes) -> HookEvent:
        given = table_of(payload)
        if isinstance(given, str):
            return UnreadablePayload(event=event, why=given)
        if event not in self.EVENTS:
            return UnreadablePayload(event=event, rest=given, why=f"unknown hook {event!r}")
        return typed(self.EVENTS[event].told, event, self.plain(given))

    def plain(self, given: Table) -> Table:
        """The payload with its keys renamed to those of `hook_events`."""
        return given

    def request_of(self, event: HookEvent, request_id: str) -> PermissionRequested | None:
        return hook_events.request(event, request_id, names=self.NAMES, keys=self.INPUT)

    # -- replies -----------------------------------------------------------------------------------

    def allow(self, event: HookEvent, *, input: Table | None = None) -> HookReply:
        match event:
            case hook_events.BeforeTool():
                return _decision(event, "allow", "allowed by tillerman", input)
            case hook_events.PermissionAsked():
                return _specific(event, decision={"behavior": "allow"})
            case UnreadablePayload():
                return refusal(event.why)
        return self.nothing(event)

    def deny(self, event: HookEvent, message: str) -> HookReply:
        match event:
            case hook_events.BeforeTool():
                return _decision(event, "deny", message)
            case hook_events.PermissionAsked():
                return _specific(event, decision={"behavior": "deny", "message": message})
            case hook_events.PromptSubmit():
                return reply({"decision": "block", "reason": message})
        return refusal(message)

    def ask(self, event: HookEvent, message: str) -> HookReply:
        """Lets the CLI ask its user; without a user the call does not run."""
        match event:
            case hook_events.BeforeTool():
                return _decision(event, "ask", message)
            case hook_events.PermissionAsked():
                return self.nothing(event)  # the CLI is already asking
        return self.deny(event, message)

    def nothing(self, event: HookEvent) -> HookReply:
        return HookReply()

    def context(
        self, event: HookEvent, words: str = "", *, environment: Mapping[str, str] | None = None
    ) -> HookReply:
        """Text for the model. Variables are ignored: none of these CLIs accepts them in a reply."""
        takes = (
            hook_events.SessionStart
            | hook_events.PromptSubmit
            | hook_events.BeforeTool
            | hook_events.AfterTool
        )
        if isinstance(event, takes) and words:
            return _specific(event, additionalContext=words)
        return self.nothing(event)

    def go_on(self, event: HookEvent, message: str) -> HookReply:
        """Sends the next prompt at the end of a turn."""
        if isinstance(event, hook_events.TurnEnd | hook_events.SubagentStop):
            return reply({"decision": "block", "reason": message})
        return self.nothing(event)

    # -- settings file -----------------------------------------------------------------------------

    def entry(self, event: str, command: str, *, timeout: int) -> Table:
        """One entry of the list `hooks.EVENT`; `timeout` in seconds."""
        seconds = timeout if event in self.GATES else min(timeout, BRIEF)
        hook = {"type": "command", "command": command, "timeout": seconds * self.UNIT}
        return {"hooks": [hook]}

    def config(
        self, commands: Mapping[str, str], version: str | None = None, *, timeout: int = 600
    ) -> dict[str, bytes]:
        """A complete settings file by its usual name, with the events this version supports."""
        hooks = {
            event: [self.entry(event, command, timeout=timeout)]
            for event, command in commands.items()
            if event in self.known(version)
        }
        made = msgspec.json.encode({**self.PLACE.frame, "hooks": hooks})
        return {self.PLACE.file: msgspec.json.format(made)}


def _decision(
    event: HookEvent,
    decision: Literal["allow", "deny", "ask"],
    reason: str,
    input: Table | None = None,
) -> HookReply:
    output: Table = {"permissionDecision": decision, "permissionDecisionReason": reason}
    if input is not None:
        output["updatedInput"] = input
    return _specific(event, **output)


def _specific(event: HookEvent, **fields: Any) -> HookReply:
    return reply({"hookSpecificOutput": {"hookEventName": event.event, **fields}})
