"""What the documents state for each agent and case, and how to regenerate it.

`docs/agents/verdicts.json` has one value for each: `yes`, `no: CAPABILITY`, `differs: HOW`,
`unplayed: WHY`; `gate.json` beside it states how each class of calls is enforced. With
TILLERMAN_VERDICTS=FILE the tests add theirs to that file as they run, and `python
tests/conformance/verdicts.py FILE` updates the documents.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from tillerman.agents import load
from tillerman.core.tools import ToolClass
from tillerman.testing.conformance_cases import CASES, CaseVerdict, ConformanceCase
from tillerman.testing.gate_probe.probes import Hold

FOLDER = Path(__file__).parents[2] / "docs" / "agents"
DOCUMENT = FOLDER / "verdicts.json"
GATE = FOLDER / "gate.json"


def hold(agent: str, version: str, case: ConformanceCase, verdict: CaseVerdict) -> None:
    """Fails unless the agent does what it declares, and the documents state the same."""
    assert verdict.outcome != "fails", verdict.why
    word = f"{verdict.outcome}: {verdict.why}" if verdict.why else verdict.outcome
    if _noted([agent, version, case.name, word]):
        return
    known = json.loads(DOCUMENT.read_text())[agent]["cases"].get(case.name)
    assert word == known, f"docs/agents say {known!r}: `make verdicts` writes what is found now"


def hold_gate(agent: str, version: str, holds: dict[ToolClass, Hold]) -> None:
    """Fails unless the classes that the agent declares are enforced, and the documents state the
    same."""
    enforced = {kind for kind, hold in holds.items() if hold == "enforced"}
    assert enforced == load(agent).info.asks
    if _noted([agent, version, GATE.name, holds]):
        return
    known = json.loads(GATE.read_text())[agent]["holds"]
    assert holds == known, f"docs/agents say {known!r}: `make verdicts` writes what is found now"


def _noted(reported: list[object]) -> bool:
    file = os.environ.get("TILLERMAN_VERDICTS")
    if not file:
        return False
    with Path(file).open("a") as out:
        out.write(json.dumps(reported) + "\n")
    return True


def main(file: str) -> None:
    gate = json.loads(GATE.read_text()) if GATE.exists() else {}
    fields = json.loads(DOCUMENT.read_text()) if DOCUMENT.exists() else {}
    for line in Path(file).read_text().splitlines():
        agent, version, case, word = json.loads(line)
        if case == GATE.name:
            gate[agent] = {"version": version, "holds": word}
            continue
        found = fields.setdefault(agent, {"version": version, "cases": {}})
        found["version"] = version
        found["cases"][case] = word
    for found in fields.values():
        known = found["cases"]
        found["cases"] = {name: known[name] for name in CASES if name in known}
    for document, found in ((DOCUMENT, fields), (GATE, gate)):
        document.write_text(
            json.dumps(dict(sorted(found.items())), indent=1, ensure_ascii=False) + "\n"
        )


if __name__ == "__main__":
    main(sys.argv[1])
