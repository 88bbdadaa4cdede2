"""Hook dialect of Qwen Code: Claude's format, native tools, milliseconds. Ignores changed input."""

from __future__ import annotations

from tillerman.agents.qwen import tool_names
from tillerman.hooks.dialects.common_dialect import CommonHookDialect
from tillerman.hooks.dialects.dialect import HookConfigPaths


class QwenHooks(CommonHookDialect):
    CHANGES_INPUT = frozenset()
    NAMES = tool_names.NAMES
    UNIT = 1000
    PLACE = HookConfigPaths(
        project=".qwen/settings.json", user=".qwen/settings.json", comments=True
    )


dialect = QwenHooks()
