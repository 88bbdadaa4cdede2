"""Claude Code's hooks. What fails in its own way is ignored: only exit 2 and a deny hold a call."""

from __future__ import annotations

from typing import ClassVar

from bridle.hooks.dialects import names, told
from bridle.hooks.dialects.dialect import Place
from bridle.hooks.dialects.nested import Nested
from bridle.hooks.dialects.told import Kind


class Claude(Nested):
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
    NAMES = names.CLAUDE
    PLACE = Place(
        project=".claude/settings.local.json",
        user=".claude/settings.json",
        moved=("CLAUDE_CONFIG_DIR", ".claude"),
        trust="in a new folder, `claude` asks whether to trust it",
    )


dialect = Claude()
