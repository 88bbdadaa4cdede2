"""The same lines with an enforced policy: whatever the reader reports, nothing denied happens."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest

from tests.core.permission.differential.shards import report, run_shard

COUNT = int(os.environ.get("TILLERMAN_POLICY_LINES", "300")) // 3
RANGE = ("--start", "0", "--count", str(COUNT))
SESSIONS = COUNT // 2  # lines that each run in sessions of their own


def test_without_enforcement_denied_programs_do_run() -> None:
    """Otherwise the test below could not fail."""
    found = run_shard(*RANGE, "--launcher", "recorded", "--minimise", "0")
    assert len({one["seed"] for one in found["failures"]}) > 0.1 * COUNT


def test_no_denied_program_runs_behind_the_gate() -> None:
    pytest.importorskip("tillerman.supervision.exec_gate")
    found = run_shard(*RANGE, "--launcher", "exec-gate", "--minimise", "4")
    assert found["failures"] == [], report(found)
    assert found["counts"]["lines that did something"] > 0.4 * COUNT


def test_without_protection_protected_names_do_change_and_denied_files_are_read() -> None:
    """Otherwise the test below could not fail."""
    found = run_shard("--count", str(SESSIONS), "--launcher", "unprotected", "--minimise", "0")
    kinds = Counter(kind for one in found["failures"] for kind, _ in one["causes"])
    assert min(kinds["protected name changed"], kinds["denied path read"]) >= 0.02 * SESSIONS


def test_protected_names_stay_and_denied_files_are_not_read_in_a_session() -> None:
    found = run_shard("--count", str(SESSIONS), "--launcher", "protected", "--minimise", "4")
    assert found["failures"] == [], report(found)
    assert found["counts"]["lines"] == SESSIONS


HARMFUL = (
    *("cat .env", "cp .env q", "cat < envlink", "tar cf /tmp/t .", "ln .env q; cat q", "grep -r KEY ."),
    *("echo x > .env", "mv .env q", "rm -rf .env .git", "mv .git q; mkdir .git; > .git/config"),
    *("echo x > .git/hooks/pre-commit", "chmod 700 .git/hooks", "printf '[alias]x=!y' >> .git/config"),
    *("> .mcp.json", "mkdir .claude", "rm -r .github", "mv .github q", "echo x > .github/workflows/x.yml"),
    *("ln -s /tmp .vscode", "chmod 600 .github/workflows/ci.yml", "(sleep 0.3; > .mcp.json) & sleep 0.1"),
    *("while :; do > .mcp.json; done & sleep 0.7; kill $!", "mv ../ws ../q; mkdir ../ws", "mv ../ws ../q"),
)  # fmt: skip


@pytest.mark.parametrize("launcher", ["unprotected", "protected"])
def test_each_way_to_change_or_read_them_is_seen_and_blocked(launcher: str, tmp_path: Path) -> None:
    given = tmp_path / "lines.json"
    given.write_text(json.dumps(HARMFUL))
    found = run_shard("--lines", str(given), "--launcher", launcher, "--minimise", "0")
    seen = {one["line"] for one in found["failures"] if one["shell"] == "bash"}
    assert seen == (set(HARMFUL) if launcher == "unprotected" else set()), report(found)
