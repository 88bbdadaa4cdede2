"""The stand-in for Cursor without tillerman: run by hand, in a separate home and project."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from tests.stand_ins.cursor_stand_in import VERSION, install_cursor

TURN = ["-p", "--output-format", "stream-json", "--stream-partial-output", "--trust"]
TURN += ["--model", "auto"]


class Cursor:
    def __init__(self, folder: Path, version: str = VERSION) -> None:
        self.home = folder / "home"
        self.project = folder / "project"
        self.project.mkdir()
        self.program = install_cursor(folder / "bin", self.home, version=version)
        self.env = {"PATH": os.environ["PATH"], "HOME": str(self.home)}

    def run(self, *argv: str, prompt: str = "hello") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.program, *argv],
            input=prompt,
            capture_output=True,
            text=True,
            cwd=self.project,
            env=self.env,
            timeout=30,
        )

    def perform(self, *steps: dict[str, Any], flags: list[str] | None = None) -> list[Any]:
        ran = self.run(*TURN, *(flags or []), prompt=f"@@script@@ {json.dumps(steps)}")
        assert (ran.returncode, ran.stderr) == (0, "")
        return [json.loads(line) for line in ran.stdout.splitlines()]

    def results(self, *steps: dict[str, Any], flags: list[str] | None = None) -> list[Any]:
        """The result of each call."""
        lines = self.perform(*steps, flags=flags)
        ends = [one for one in lines if one.get("subtype") == "completed" and "tool_call" in one]
        return [next(iter(one["tool_call"].values()))["result"] for one in ends]

    def told(self) -> str:
        """The input of its model's last call, as JSON."""
        return (self.home / ".cursor" / "stand-in-told.json").read_text()

    def hook(self, event: str, command: str, **more: Any) -> None:
        self.hooks({event: [{"command": command, **more}]})

    def hooks(self, hooks: dict[str, Any], folder: Path | None = None) -> None:
        file = (folder or self.project) / ".cursor" / "hooks.json"
        file.parent.mkdir(exist_ok=True, parents=True)
        file.write_text(json.dumps({"version": 1, "hooks": hooks}))
