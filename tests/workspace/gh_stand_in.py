"""A `gh` that answers from recordings, and logs its arguments."""

from __future__ import annotations

import json
import sys
from ast import literal_eval
from pathlib import Path
from typing import Any

RECORDINGS = Path(__file__).parents[1] / "recordings" / "github"
_PROGRAM = """\
#!{python} -IS
import os, sys, time  # and no more: it is started for each question
here = {here!r}
words = sys.argv[1:]
def note(what):
    line = repr((what, os.getpid(), words, dict(os.environ))) + "\\n"
    with open(here + "/asked", "a") as log:
        log.write(line)
note("begins")
with open(here + "/answers") as file:
    answers = eval(file.read())
answer = next((a for a in answers if words[: len(a["words"])] == a["words"]), None)
if answer is None:
    answer = {{"exit": 1, "stderr": "unknown command " + " ".join(words) + "\\n"}}
time.sleep(answer.get("seconds", 0))
for command in answer.get("runs", []):
    import subprocess
    subprocess.run(command, capture_output=True)
sys.stdout.write(answer.get("stdout", ""))
sys.stderr.write(answer.get("stderr", ""))
note("ends")
sys.exit(answer.get("exit", 0))
"""


class GhStandIn:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        program = folder / "gh"
        program.write_text(_PROGRAM.format(python=sys.executable, here=str(folder)))
        program.chmod(0o755)
        self._answers: list[dict[str, Any]] = []
        self._write()

    def answer(self, *words: str, **answer: Any) -> None:
        """Answers calls that start with these arguments; the newest answer comes first."""
        self._answers.insert(0, {"words": list(words), **answer})
        self._write()

    def shows(self, recording: str, **changed: Any) -> None:
        """`gh pr view` prints the recording."""
        fields = json.loads((RECORDINGS / f"{recording}.json").read_text()) | changed
        self.answer("pr", "view", "--json", stdout=json.dumps(fields))

    def fails(self, case: str) -> None:
        reported = next(one for one in failures() if one["case"] == case)
        self.answer(
            "pr",
            "view",
            exit=reported["exit"],
            stdout=reported["stdout"],
            stderr=reported["stderr"],
        )

    @property
    def log(self) -> list[tuple[str, int, list[str], dict[str, str]]]:
        file = self.folder / "asked"
        lines = file.read_text().splitlines() if file.exists() else []
        return [literal_eval(line) for line in lines]

    @property
    def asked(self) -> list[list[str]]:
        return [words for what, _, words, _ in self.log if what == "begins"]

    def _write(self) -> None:
        (self.folder / "answers").write_text(repr(self._answers))


def failures() -> list[dict[str, Any]]:
    return list(json.loads((RECORDINGS / "failures.json").read_text()))
