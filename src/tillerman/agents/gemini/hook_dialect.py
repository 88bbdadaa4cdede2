"""Hook dialect of Gemini CLI: native events and replies, Claude's keys, timeouts in milliseconds.

Hooks do not fire in ACP mode, and those of a project only in a trusted folder.
"""

from __future__ import annotations

from typing import ClassVar

from tillerman.agents.gemini import tool_names
from tillerman.core.json_fields import Table
from tillerman.hooks.dialects import hook_events
from tillerman.hooks.dialects.common_dialect import CommonHookDialect
from tillerman.hooks.dialects.dialect import HookConfigPaths
from tillerman.hooks.dialects.hook_events import HookKind
from tillerman.hooks.dialects.payload_codec import HookEvent, UnreadablePayload, reply
from tillerman.hooks.protocol import HookReply, refusal


class GeminiHooks(CommonHookDialect):
    EVENTS: ClassVar = {
        "SessionStart": HookKind(hook_events.SessionStart),
        "SessionEnd": HookKind(hook_events.SessionEnd),
        "BeforeAgent": HookKind(hook_events.PromptSubmit),
        "BeforeTool": HookKind(hook_events.BeforeTool),
        "AfterTool": HookKind(hook_events.AfterTool),
        "AfterAgent": HookKind(hook_events.TurnEnd),
        "PreCompress": HookKind(hook_events.Compaction),
        "Notification": HookKind(hook_events.Notification),
    }
    CALLS = ("BeforeTool",)
    CHANGES_INPUT = frozenset({"BeforeTool"})
    NAMES = tool_names.NAMES
    INPUT: ClassVar = {"dir_path": "path"}
    UNIT = 1000
    PLACE = HookConfigPaths(
        project=".gemini/settings.json",
        user=".gemini/settings.json",
        comments=True,
        moved=("GEMINI_CLI_HOME", ""),
        trust="project hooks apply once you trust the folder in `gemini`",
    )

    def plain(self, given: Table) -> Table:
        answer = given.get("prompt_response")
        return given if answer is None else given | {"last_assistant_message": answer}

    def allow(self, event: HookEvent, *, input: Table | None = None) -> HookReply:
        if isinstance(event, UnreadablePayload):
            return refusal(event.why)
        if not isinstance(event, hook_events.BeforeTool):
            return self.nothing(event)
        output: Table = {"decision": "allow"}
        if input is not None:
            output["hookSpecificOutput"] = {"hookEventName": event.event, "tool_input": input}
        return reply(output)

    def deny(self, event: HookEvent, message: str) -> HookReply:
        if isinstance(event, hook_events.BeforeTool | hook_events.PromptSubmit):
            return reply({"decision": "deny", "reason": message})
        return refusal(message)

    def ask(self, event: HookEvent, message: str) -> HookReply:
        """Lets the CLI ask its user; without a user its run ends here."""
        if isinstance(event, hook_events.BeforeTool):
            return reply({"decision": "ask", "reason": message})
        return self.deny(event, message)

    def go_on(self, event: HookEvent, message: str) -> HookReply:
        if isinstance(event, hook_events.TurnEnd):
            return reply({"decision": "deny", "reason": message})
        return self.nothing(event)


dialect = GeminiHooks()
