"""A million lines, in pieces.

    python -m tests.core.permission.differential.torture --minutes 30 --shard 0 --shards 2

Each run continues where the last one of the same code stopped. Results are stored in one file for
each shard, below a folder named after a hash of the code: other code starts again. What the shells
did is stored separately, so that another reader is checked without running the lines again;
`--record` runs lines ahead, and checks none.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

import tillerman
from tests.core.permission.differential import recorded_facts
from tests.core.permission.differential.shards import report, start_shard

FIRST, LINES = 1_000_000, 1_000_000
STATE = Path(
    os.environ.get("TILLERMAN_POLICY_STATE", "~/.cache/tillerman/policy-torture")
).expanduser()
_PIECE = 2_500
_HERE = Path(__file__).parent
_PACKAGE = Path(tillerman.__file__).parent
# what decides about a line, and what generates, runs and judges it
_SOURCES = (
    *(
        "core/permission/**/*.py",
        "core/permission/protected_names.py",
        "workspace/files/policy_lookup.py",
    ),
    "supervision/exec_gate/*.py",
)


def fingerprint() -> str:
    """A hash of all code that a result depends on."""
    found = hashlib.sha256()
    files = [path for pattern in _SOURCES for path in sorted(_PACKAGE.glob(pattern))]
    files += [*sorted(_HERE.glob("*.py")), *sorted(_HERE.glob("*.toml"))]
    for path in [*files, _HERE.with_name("corpus.toml")]:
        found.update(path.name.encode() + b"\0" + path.read_bytes())
    return found.hexdigest()[:12]


class Progress:
    """The progress of one shard, on disk."""

    def __init__(self, shard: int, shards: int, launcher: str, state: Path = STATE) -> None:
        size = LINES // shards
        first = FIRST + shard * size
        self.end = first + size
        name = f"{launcher}-{shard}-of-{shards}.json"
        self.code = fingerprint()
        self._path = state / self.code / name
        self.found: dict[str, Any] = {"next": first, "counts": {"lines": 0}, "failures": []}
        if self._path.exists():
            self.found = json.loads(self._path.read_text())

    def add(self, piece: dict[str, Any], following: int) -> None:
        counts = Counter(self.found["counts"]) + Counter(piece["counts"])
        failures = [*self.found["failures"], *piece["failures"]]
        self.found = {"next": following, "counts": dict(counts), "failures": failures}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        draft = self._path.with_suffix(".new")
        draft.write_text(json.dumps(self.found))
        draft.replace(self._path)


def run(shard: int, shards: int, minutes: float, launcher: str = "plain") -> dict[str, Any]:
    """Runs piece after piece until the time is over; returns all results of this shard so far."""
    progress = Progress(shard, shards, launcher)
    deadline = time.monotonic() + 60 * minutes
    while (start := progress.found["next"]) < progress.end and time.monotonic() < deadline:
        count = min(_PIECE, progress.end - start)
        piece = start_shard(
            *("--start", str(start), "--count", str(count), "--minimise", "3"),
            *("--launcher", launcher),
            *(("--facts", str(facts_file(start))) if launcher == "plain" else ()),
        )
        if "skipped" in piece:
            return piece
        if fingerprint() != progress.code:
            break  # somebody changed it meanwhile: this piece counts for neither
        progress.add(piece, start + count)
    return progress.found


def record(shard: int, shards: int, minutes: float) -> int:
    """Runs lines that no shell has run yet, from the first one on. Returns how many are
    recorded."""
    size = LINES // shards
    first = FIRST + shard * size
    deadline = time.monotonic() + 60 * minutes
    done = 0
    for start in range(first, first + size, _PIECE):
        if not facts_file(start).exists():
            if time.monotonic() >= deadline:
                break
            count = min(_PIECE, first + size - start)
            start_shard(
                *("--start", str(start), "--count", str(count)),
                *("--facts", str(facts_file(start)), "--record"),
            )
        done += _PIECE
    return done


def facts_file(start: int) -> Path:
    return STATE / f"facts-{recorded_facts.fingerprint()}" / f"{start}.zlib"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--shard", type=int, default=0)
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--launcher", default="plain")
    parser.add_argument("--record", action="store_true")
    given = parser.parse_args()
    if given.record:
        print(f"{record(given.shard, given.shards, given.minutes)} lines on record")
        return
    found = run(given.shard, given.shards, given.minutes, given.launcher)
    print(found.get("skipped") or report(found))


if __name__ == "__main__":
    main()
