"""What the reader reports of generated lines, compared with bash and dash that run them.

A program that ran, or a file that was written or read, must have been named or doubted; and no
policy may have allowed what it denies. TILLERMAN_POLICY_LINES is the number of lines (make
test-policy).
"""

from __future__ import annotations

import os

import pytest

from tests.core.permission.differential import torture
from tests.core.permission.differential.shards import report, run_shard

COUNT = int(os.environ.get("TILLERMAN_POLICY_LINES", "300"))
SEED = int(os.environ.get("TILLERMAN_POLICY_SEED", "0"))
SHARDS = 2
TORTURE_MINUTES = float(os.environ.get("TILLERMAN_POLICY_MINUTES", "25"))


@pytest.mark.parametrize("shard", range(SHARDS))
def test_whatever_a_shell_does_was_named_or_marked_uncertain(shard: int) -> None:
    size = COUNT // SHARDS
    first = SEED + shard * size
    found = run_shard("--start", str(first), "--count", str(size), "--minimise", "4")
    assert found["failures"] == [], report(found)
    assert found["counts"]["lines that did something"] > 0.7 * size


@pytest.mark.skipif(COUNT < 10_000, reason="make test-policy runs it")
def test_each_construct_by_itself_was_named_or_marked_uncertain() -> None:
    found = run_shard("--each", "--minimise", "4")
    assert found["failures"] == [], report(found)


@pytest.mark.torture
@pytest.mark.timeout(60 * TORTURE_MINUTES + 900)
@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_million_lines(shard: int) -> None:
    """Continues where the last run of the same code stopped, until the time is over."""
    found = torture.run(shard, SHARDS, TORTURE_MINUTES)
    if why := found.get("skipped"):
        pytest.skip(why)
    print(f"shard {shard}: lines up to {found['next']}, {found['counts']}")
    assert found["failures"] == [], report(found)
