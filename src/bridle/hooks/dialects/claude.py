"""Claude Code's hooks. What fails in its own way is ignored: only exit 2 and a deny hold a call."""

from __future__ import annotations

from bridle.hooks.dialects import names
from bridle.hooks.dialects.dialect import Place
from bridle.hooks.dialects.nested import Nested


class Claude(Nested):
    NAMES = names.CLAUDE
    PLACE = Place(
        project=".claude/settings.local.json",
        user=".claude/settings.json",
        moved=("CLAUDE_CONFIG_DIR", ".claude"),
        trust="in a new folder, `claude` asks whether to trust it",
    )


dialect = Claude()
