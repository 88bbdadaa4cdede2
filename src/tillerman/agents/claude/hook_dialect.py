"""Hook dialect of Claude Code. Other hook errors are ignored: only exit 2 or a deny blocks."""

from __future__ import annotations

from typing import ClassVar

from tillerman.agents.claude import tool_names
from tillerman.hooks.dialects.common_dialect import CommonHookDialect
from tillerman.hooks.dialects.dialect import HookConfigPaths


class ClaudeHooks(CommonHookDialect):
    NAMES = tool_names.NAMES
    ALSO_RUN_BY: ClassVar = {"cursor_version": "cursor"}
    PLACE = HookConfigPaths(
        project=".claude/settings.local.json",
        user=".claude/settings.json",
        moved=("CLAUDE_CONFIG_DIR", ".claude"),
        trust="in a new folder, `claude` asks whether to trust it",
    )


dialect = ClaudeHooks()
