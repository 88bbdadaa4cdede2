"""Gemini CLI's hooks: events and replies of its own, told in Claude's keys, in milliseconds.

They do not fire when it speaks ACP, and those of a project only where it trusts the folder.
"""

from __future__ import annotations

from typing import ClassVar

from bridle.core.fields import Table
from bridle.hooks.dialects import names, told
from bridle.hooks.dialects.dialect import Place
from bridle.hooks.dialects.nested import Nested
from bridle.hooks.dialects.payload import HookEvent, Unreadable, reply
from bridle.hooks.dialects.told import Kind
from bridle.hooks.messages import HookReply, refusal


class Gemini(Nested):
    EVENTS: ClassVar = {
        "SessionStart": Kind(told.SessionStart),
        "SessionEnd": Kind(told.SessionEnd),
        "BeforeAgent": Kind(told.PromptSubmit),
        "BeforeTool": Kind(told.BeforeTool),
        "AfterTool": Kind(told.AfterTool),
        "AfterAgent": Kind(told.TurnEnd),
        "PreCompress": Kind(told.Compaction),
        "Notification": Kind(told.Notification),
    }
    CALLS = ("BeforeTool",)
    CHANGES_INPUT = frozenset({"BeforeTool"})
    NAMES = names.GEMINI
    INPUT: ClassVar = {"dir_path": "path"}
    UNIT = 1000
    PLACE = Place(
        project=".gemini/settings.json",
        user=".gemini/settings.json",
        comments=True,
        moved=("GEMINI_CLI_HOME", ""),
        trust="those of a project count once `gemini` was told to trust the folder",
    )

    def plain(self, given: Table) -> Table:
        said = given.get("prompt_response")
        return given if said is None else given | {"last_assistant_message": said}

    def allow(self, event: HookEvent, *, input: Table | None = None) -> HookReply:
        if isinstance(event, Unreadable):
            return refusal(event.why)
        if not isinstance(event, told.BeforeTool):
            return self.nothing(event)
        said: Table = {"decision": "allow"}
        if input is not None:
            said["hookSpecificOutput"] = {"hookEventName": event.event, "tool_input": input}
        return reply(said)

    def deny(self, event: HookEvent, message: str) -> HookReply:
        if isinstance(event, told.BeforeTool | told.PromptSubmit):
            return reply({"decision": "deny", "reason": message})
        return refusal(message)

    def ask(self, event: HookEvent, message: str) -> HookReply:
        """Where nobody is there, its run ends here."""
        if isinstance(event, told.BeforeTool):
            return reply({"decision": "ask", "reason": message})
        return self.deny(event, message)

    def go_on(self, event: HookEvent, message: str) -> HookReply:
        if isinstance(event, told.TurnEnd):
            return reply({"decision": "deny", "reason": message})
        return self.nothing(event)


dialect = Gemini()
