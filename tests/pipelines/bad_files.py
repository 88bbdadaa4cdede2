"""The cases of bad_files.txt: a bad file each, with the one error that it gives."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

# `case` calls these, and is called by one of them
BESIDE = {
    "called.yaml": "inputs: {task: {}, count: {type: integer, default: 1}}\n"
    'steps: [{id: x, run: "echo {{ inputs.task }} {{ inputs.count }}"}]\n',
    "back.yaml": "steps: [{id: x, pipeline: case}]\n",
}


class BadFile(NamedTuple):
    title: str
    suffix: str
    line: int
    problem: str
    hint: str
    text: str


def bad_files() -> list[BadFile]:
    found = []
    for case in Path(__file__).with_suffix(".txt").read_text().split("\n--- ")[0:]:
        head, _, text = case.removeprefix("--- ").partition("\n")
        title, suffix, line, problem, *hint = (part.strip() for part in head.split(" | "))
        end = "" if not text else "\n"
        found.append(BadFile(title, suffix, int(line), problem, "".join(hint), text + end))
    return found
