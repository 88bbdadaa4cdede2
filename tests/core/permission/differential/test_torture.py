"""A million lines in pieces: what was done is kept, and a later run goes on behind it."""

from __future__ import annotations

from pathlib import Path

from tests.core.permission.differential.torture import FIRST, LINES, Progress

FAILURE = {"seed": FIRST, "line": "x"}


def test_progress_is_found_again_by_the_same_code_and_shard(tmp_path: Path) -> None:
    progress = Progress(1, 4, "plain", tmp_path)
    first = FIRST + LINES // 4
    assert (progress.found["next"], progress.end) == (first, FIRST + LINES // 2)
    progress.add({"counts": {"lines": 500}, "failures": [FAILURE]}, first + 500)
    progress.add({"counts": {"lines": 250, "unread": 3}, "failures": []}, first + 750)
    assert Progress(1, 4, "plain", tmp_path).found == {
        "next": first + 750,
        "counts": {"lines": 750, "unread": 3},
        "failures": [FAILURE],
    }


def test_other_shards_launchers_and_code_start_from_zero(tmp_path: Path) -> None:
    progress = Progress(0, 2, "plain", tmp_path)
    progress.add({"counts": {"lines": 500}, "failures": []}, FIRST + 500)
    (tmp_path / progress.code).rename(tmp_path / "other")
    again = [Progress(0, 2, "plain", tmp_path), Progress(0, 2, "protected", tmp_path)]
    assert [one.found["next"] for one in again] == [FIRST, FIRST]
    assert Progress(1, 2, "plain", tmp_path).found["next"] == FIRST + LINES // 2
