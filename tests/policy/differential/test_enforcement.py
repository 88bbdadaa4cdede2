"""The same lines where a policy is enforced: whatever the reader says, nothing denied happens."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from differential.shards import report, run_shard

COUNT = int(os.environ.get("BRIDLE_POLICY_LINES", "300")) // 3
RANGE = ("--start", "0", "--count", str(COUNT))


def test_without_enforcement_denied_programs_do_run() -> None:
    """Else the test below could not fail."""
    found = run_shard(*RANGE, "--launcher", "recorded", "--minimise", "0")
    assert len({one["seed"] for one in found["failures"]}) > 0.1 * COUNT


def test_no_denied_program_runs_behind_the_gate() -> None:
    pytest.importorskip("bridle.supervision.exec_gate")
    found = run_shard(*RANGE, "--launcher", "exec-gate", "--minimise", "4")
    assert found["failures"] == [], report(found)
    assert found["counts"]["lines that did something"] > 0.4 * COUNT


def test_without_protection_protected_names_do_change_and_denied_files_are_read() -> None:
    """Else the test below could not fail."""
    found = run_shard(*RANGE, "--launcher", "unprotected", "--minimise", "0")
    kinds = Counter(kind for one in found["failures"] for kind, _ in one["causes"])
    assert kinds["protected name changed"] > 0.05 * COUNT
    assert kinds["denied path read"] > 0.05 * COUNT


def test_protected_names_stay_and_denied_files_are_not_read_in_a_session() -> None:
    found = run_shard(*RANGE, "--launcher", "protected", "--minimise", "4")
    assert found["failures"] == [], report(found)
    assert found["counts"]["lines"] == COUNT
