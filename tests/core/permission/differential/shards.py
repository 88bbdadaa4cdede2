"""Starts shards as separate processes, and formats their findings."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest

from tests import CHECKOUT
from tests.core.permission.differential.minimise import skeleton

_MOST_SHOWN = 60


def start_shard(*arguments: str, timeout: float = 3600) -> dict[str, Any]:
    """The findings of one shard, or why it was `skipped`."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.core.permission.differential", *arguments],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def run_shard(*arguments: str, timeout: float = 3600) -> dict[str, Any]:
    """The findings of one shard; skips the test if this machine has no namespaces."""
    found = start_shard(*arguments, timeout=timeout)
    if why := found.get("skipped"):
        pytest.skip(why)
    return found


def report(found: dict[str, Any]) -> str:
    """Each distinct minimal line once, the frequent ones first."""
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for one in found["failures"]:
        kind, detail = one["causes"][0]
        groups.setdefault((kind, detail, skeleton(one["minimal"])), []).append(one)
    lines = [
        f"{len(found['failures'])} of {found['counts']['lines']} lines fail: {found['counts']}"
    ]
    for (kind, detail, _), members in sorted(groups.items(), key=lambda item: -len(item[1])):
        best = min(members, key=lambda one: len(one["minimal"]))
        shells = "+".join(sorted(Counter(one["shell"] for one in members)))
        where = f"[{shells}, seed {best['seed']}: {best['evidence']}]"
        lines.append(f"{kind}: {detail} {where} {best['minimal']!r}")
    return "\n".join(lines[: _MOST_SHOWN + 1])
