"""What the reader says of generated lines, held against bash and dash that run them.

A program that ran, or a file that was written or read, must have been named or doubted; and no
policy may have allowed what it denies. BRIDLE_POLICY_LINES says how many lines (make test-policy).
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from differential.shards import report, run_shard

COUNT = int(os.environ.get("BRIDLE_POLICY_LINES", "300"))
SHARDS = 2
TORTURE_COUNT = 1_000_000
TORTURE_SECONDS = float(os.environ.get("BRIDLE_POLICY_SECONDS", "1500"))
PROGRESS = Path(os.environ.get("BRIDLE_POLICY_PROGRESS", ".venv/policy-torture"))


@pytest.mark.parametrize("shard", range(SHARDS))
def test_whatever_a_shell_does_was_named_or_doubted(shard: int) -> None:
    size = COUNT // SHARDS
    found = run_shard("--start", str(shard * size), "--count", str(size), "--minimise", "4")
    assert found["failures"] == [], report(found)
    assert found["counts"]["lines that did something"] > 0.7 * size


@pytest.mark.skipif(COUNT < 10_000, reason="make test-policy runs it")
def test_each_construct_by_itself_was_named_or_doubted() -> None:
    found = run_shard("--each", "--minimise", "4")
    assert found["failures"] == [], report(found)


@pytest.mark.torture
@pytest.mark.timeout(TORTURE_SECONDS + 600)
@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_million_lines(shard: int) -> None:
    """Goes on where the last run stopped, until the time is over."""
    size = TORTURE_COUNT // SHARDS
    first = 1_000_000 + shard * size
    progress = PROGRESS.with_suffix(f".{shard}.json")
    start = json.loads(progress.read_text()) if progress.exists() else first
    count = first + size - start
    found = run_shard(
        *("--start", str(start), "--count", str(count), "--minimise", "4"),
        *("--seconds", str(TORTURE_SECONDS)),
        timeout=TORTURE_SECONDS + 600,
    )
    print(f"shard {shard}: lines {start} to {found['last']}, {found['counts']}")
    assert found["failures"] == [], report(found)
    progress.write_text(json.dumps(found["last"] + 1))
