"""What the documents say of each agent and case, and how that is written anew.

`docs/agents/verdicts.json` holds a word for each: `yes`, `no: CAPABILITY`, `differs: HOW`,
`unplayed: WHY`. With BRIDLE_VERDICTS=FILE the tests add theirs to that file as they run, and
`python tests/conformance/verdicts.py FILE` makes them the documents'.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from bridle.testing.cases import CASES, Case, Verdict

DOCUMENT = Path(__file__).parents[2] / "docs" / "agents" / "verdicts.json"


def hold(agent: str, version: str, case: Case, verdict: Verdict) -> None:
    """Fails unless the agent does what it claims, and the documents say so."""
    assert verdict.outcome != "fails", verdict.why
    word = f"{verdict.outcome}: {verdict.why}" if verdict.why else verdict.outcome
    if file := os.environ.get("BRIDLE_VERDICTS"):
        line = json.dumps([agent, version, case.name, word]) + "\n"
        with Path(file).open("a") as out:
            out.write(line)
        return
    known = json.loads(DOCUMENT.read_text())[agent]["cases"].get(case.name)
    assert word == known, f"docs/agents say {known!r}: `make verdicts` writes what is found now"


def main(file: str) -> None:
    told = json.loads(DOCUMENT.read_text()) if DOCUMENT.exists() else {}
    for line in Path(file).read_text().splitlines():
        agent, version, case, word = json.loads(line)
        found = told.setdefault(agent, {"version": version, "cases": {}})
        found["version"] = version
        found["cases"][case] = word
    for found in told.values():
        known = found["cases"]
        found["cases"] = {name: known[name] for name in CASES if name in known}
    DOCUMENT.write_text(json.dumps(dict(sorted(told.items())), indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
