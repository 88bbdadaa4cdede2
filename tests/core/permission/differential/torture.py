"""A million lines, in pieces.

python -m tests.core.permission.differential.torture --minutes 30 --shard 0 --shards 2

Each run goes on where the last one of the same code stopped. What was done and found is kept in
one file for each shard, below a folder that is named after the code: other code starts anew.
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
from tests.core.permission.differential.shards import report, start_shard

FIRST, LINES = 1_000_000, 1_000_000
STATE = Path(
    os.environ.get("TILLERMAN_POLICY_STATE", "~/.cache/tillerman/policy-torture")
).expanduser()
_PIECE = 500
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
    """Of all code that a result depends on."""
    found = hashlib.sha256()
    files = [path for pattern in _SOURCES for path in sorted(_PACKAGE.glob(pattern))]
    files += [*sorted(_HERE.glob("*.py")), *sorted(_HERE.glob("*.toml"))]
    for path in [*files, _HERE.with_name("corpus.toml")]:
        found.update(path.name.encode() + b"\0" + path.read_bytes())
    return found.hexdigest()[:12]


class Progress:
    """Of one shard, on disk."""

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
    """Piece after piece until the time is over; all that is known of this shard by then."""
    progress = Progress(shard, shards, launcher)
    deadline = time.monotonic() + 60 * minutes
    while (start := progress.found["next"]) < progress.end and time.monotonic() < deadline:
        count = min(_PIECE, progress.end - start)
        piece = start_shard(
            *("--start", str(start), "--count", str(count), "--minimise", "3"),
            *("--launcher", launcher),
        )
        if "skipped" in piece:
            return piece
        if fingerprint() != progress.code:
            break  # somebody changed it meanwhile: this piece counts for neither
        progress.add(piece, start + count)
    return progress.found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--shard", type=int, default=0)
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--launcher", default="plain")
    given = parser.parse_args()
    found = run(given.shard, given.shards, given.minutes, given.launcher)
    print(found.get("skipped") or report(found))


if __name__ == "__main__":
    main()
