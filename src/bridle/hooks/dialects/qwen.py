"""Qwen Code's hooks: Claude's form, with its own tools and milliseconds. It ignores a new input."""

from __future__ import annotations

from typing import ClassVar

from bridle.hooks.dialects import names, told
from bridle.hooks.dialects.dialect import Place
from bridle.hooks.dialects.nested import Nested
from bridle.hooks.dialects.told import Kind


class Qwen(Nested):
    EVENTS: ClassVar = {
        "SessionStart": Kind(told.SessionStart),
        "SessionEnd": Kind(told.SessionEnd),
        "UserPromptSubmit": Kind(told.PromptSubmit),
        "PreToolUse": Kind(told.BeforeTool),
        "PermissionRequest": Kind(told.PermissionAsked),
        "PostToolUse": Kind(told.AfterTool),
        "PostToolUseFailure": Kind(told.ToolFailed),
        "Stop": Kind(told.TurnEnd),
        "SubagentStart": Kind(told.SubagentStart),
        "SubagentStop": Kind(told.SubagentStop),
        "PreCompact": Kind(told.Compaction),
        "Notification": Kind(told.Notification),
    }
    CHANGES_INPUT = frozenset()
    NAMES = names.QWEN
    UNIT = 1000
    PLACE = Place(project=".qwen/settings.json", user=".qwen/settings.json", comments=True)


dialect = Qwen()
