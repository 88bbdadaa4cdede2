"""Qwen Code's hooks: Claude's form, with its own tools and milliseconds. It ignores a new input."""

from __future__ import annotations

from tillerman.hooks.dialects import tool_names
from tillerman.hooks.dialects.claude_family import Nested
from tillerman.hooks.dialects.dialect import Place


class Qwen(Nested):
    CHANGES_INPUT = frozenset()
    NAMES = tool_names.QWEN
    UNIT = 1000
    PLACE = Place(project=".qwen/settings.json", user=".qwen/settings.json", comments=True)


dialect = Qwen()
