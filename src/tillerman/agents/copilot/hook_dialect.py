"""Hook dialect of GitHub Copilot CLI: flat entries and replies, camel case; a timeout allows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tillerman.agents.copilot import tool_names
from tillerman.core.json_fields import Table, parse
from tillerman.hooks.dialects import hook_events
from tillerman.hooks.dialects.common_dialect import CommonHookDialect
from tillerman.hooks.dialects.dialect import BRIEF, HookConfigPaths
from tillerman.hooks.dialects.hook_events import HookKind
from tillerman.hooks.dialects.payload_codec import HookEvent, UnreadablePayload, reply
from tillerman.hooks.protocol import HookReply, refusal

_KEYS = {
    "sessionId": "session_id",
    "transcriptPath": "transcript_path",
    "toolName": "tool_name",
    "toolArgs": "tool_input",
    "toolInput": "tool_input",
    "toolResult": "tool_response",
}


class CopilotHooks(CommonHookDialect):
    EVENTS: ClassVar = {
        "sessionStart": HookKind(hook_events.SessionStart),
        "sessionEnd": HookKind(hook_events.SessionEnd),
        "userPromptSubmitted": HookKind(hook_events.PromptSubmit),
        "preToolUse": HookKind(hook_events.BeforeTool),
        "permissionRequest": HookKind(hook_events.PermissionAsked),
        "postToolUse": HookKind(hook_events.AfterTool),
        "postToolUseFailure": HookKind(hook_events.ToolFailed),
        "agentStop": HookKind(hook_events.TurnEnd),
        "subagentStart": HookKind(hook_events.SubagentStart),
        "subagentStop": HookKind(hook_events.SubagentStop),
        "preCompact": HookKind(hook_events.Compaction),
        "notification": HookKind(hook_events.Notification),
    }
    CALLS = ("preToolUse",)
    CHANGES_INPUT = frozenset({"preToolUse"})
    NAMES = tool_names.NAMES
    PLACE = HookConfigPaths(
        project=".github/hooks/tillerman.json",
        user=".copilot/hooks/tillerman.json",
        frame={"version": 1},
        moved=("COPILOT_HOME", ".copilot"),
        trust="project hooks apply once you trust the folder in `copilot`",
    )

    def plain(self, given: Table) -> Table:
        plain = {_KEYS.get(key, key): value for key, value in given.items()}
        if isinstance(input := plain.get("tool_input"), str):  # older versions
            plain["tool_input"] = parse(input.encode("utf-8", "replace"))
        return plain

    def allow(self, event: HookEvent, *, input: Table | None = None) -> HookReply:
        match event:
            case hook_events.BeforeTool():
                changed = {} if input is None else {"modifiedArgs": input}
                return reply({"permissionDecision": "allow", **changed})
            case hook_events.PermissionAsked():
                return reply({"behavior": "allow"})
            case UnreadablePayload():
                return refusal(event.why)
        return self.nothing(event)

    def deny(self, event: HookEvent, message: str) -> HookReply:
        match event:
            case hook_events.BeforeTool():
                return reply({"permissionDecision": "deny", "permissionDecisionReason": message})
            case hook_events.PermissionAsked():
                return reply({"behavior": "deny", "message": message})
        return refusal(message)

    def ask(self, event: HookEvent, message: str) -> HookReply:
        match event:
            case hook_events.BeforeTool():
                return reply({"permissionDecision": "ask", "permissionDecisionReason": message})
            case hook_events.PermissionAsked():
                return self.nothing(event)
        return self.deny(event, message)

    def context(
        self, event: HookEvent, words: str = "", *, environment: Mapping[str, str] | None = None
    ) -> HookReply:
        if isinstance(event, hook_events.SessionStart | hook_events.AfterTool) and words:
            return reply({"additionalContext": words})
        return self.nothing(event)

    def entry(self, event: str, command: str, *, timeout: int) -> Table:
        seconds = timeout if event in self.GATES else min(timeout, BRIEF)
        return {"type": "command", "bash": command, "timeoutSec": seconds}


dialect = CopilotHooks()
