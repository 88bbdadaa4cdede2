"""Qwen Code's hooks: Claude's form, with its own tools and milliseconds. It ignores a new input."""

from __future__ import annotations

from bridle.hooks.dialects import tool_names
from bridle.hooks.dialects.claude_family import Nested
from bridle.hooks.dialects.dialect import Place


class Qwen(Nested):
    CHANGES_INPUT = frozenset()
    NAMES = tool_names.QWEN
    UNIT = 1000
    PLACE = Place(project=".qwen/settings.json", user=".qwen/settings.json", comments=True)


dialect = Qwen()
