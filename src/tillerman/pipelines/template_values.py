"""The values of the templates of steps; the diffs of earlier steps only if they are named."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from tillerman.pipelines.flow_specs import Scope
from tillerman.pipelines.serializer import plain
from tillerman.pipelines.steps import Step
from tillerman.pipelines.templates import Value
from tillerman.pipelines.workflows import Workflows

MOST_DIFF = 100_000  # characters
_DIFF = re.compile(r"steps\.([a-z][a-z0-9-]*)\.diff")


async def values_for(
    flows: Workflows, run: str, scope: Scope, steps: Sequence[Step]
) -> dict[str, Value]:
    """Commits do not change, so a replay gets the same values."""
    text = msgspec.json.encode(steps).decode()
    git = await flows.worker.git(run)
    diffs = {}
    for id in set(_DIFF.findall(text)) & scope.results.keys():
        result = scope.results[id]
        if git is None or not result.base or not result.commit:
            continue
        shown = await flows.worker.blocking(git.diff, result.base, result.commit)
        diff = plain(shown.decode("utf-8", "replace"))
        if len(diff) > MOST_DIFF:
            left = len(diff) - MOST_DIFF
            diff = f"{diff[:MOST_DIFF]}\n[{left} more characters of this diff are left out]\n"
        diffs[id] = diff
    return scope.all_values(diffs)
