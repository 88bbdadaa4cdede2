"""A million lines in pieces: results are stored, and a later run continues after them."""

from __future__ import annotations

import json
from pathlib import Path

from tests.core.permission.differential.executor import Executor
from tests.core.permission.differential.recorded_facts import RecordedFacts
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


def test_a_line_on_record_is_not_run_again(tmp_path: Path) -> None:
    runs: list[str] = []

    class Shells(Executor):
        def __init__(self) -> None:
            """Starts none."""

        def answer(self, shell: str, line: str) -> bytes:
            runs.append(line)
            report = {"execs": [["/bin/ls", ["ls", "\udcff"], "/", []]], "changed": [line]}
            rest = {"replaced": [], "left": [], "read": [], "timed_out": False, "status": 0}
            return json.dumps(report | rest).encode()

    path = tmp_path / "facts" / "0.zlib"
    first = RecordedFacts(Shells(), path)
    facts = [first.run("bash", line) for line in ("a\udcff", "b")]
    first.save()
    second = RecordedFacts(Shells(), path)
    assert [second.run("bash", line) for line in ("a\udcff", "b")] == facts
    assert second.run("bash", "c").changed == ("c",)
    assert runs == ["a\udcff", "b", "c"]
