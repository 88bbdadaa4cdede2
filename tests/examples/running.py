"""Runs the programs of `examples/` as a user does: each in a process, in a separate folder."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

EXAMPLES = Path(__file__).parents[2] / "examples"


class Ran(NamedTuple):
    code: int
    output: str
    errors: str


class ExampleFolder:
    """A home and an empty project; `run` runs an example there."""

    def __init__(self, folder: Path) -> None:
        self.project = folder / "project"
        self.project.mkdir(exist_ok=True)
        self.home = folder / "home"
        self.home.mkdir(exist_ok=True)

    def run(
        self,
        name: str,
        *words: str,
        input: str = "",
        environment: Mapping[str, str] | None = None,
        timeout: float = 90,
    ) -> Ran:
        variables = environment or {"PATH": f"{Path(sys.executable).parent}:{os.defpath}"}
        ran = subprocess.run(
            [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py"), *words],
            cwd=self.project,
            env={
                "HOME": str(self.home),
                "TILLERMAN_HOME": str(self.home / "tillerman"),
                **variables,
            },
            input=input,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        return Ran(ran.returncode, ran.stdout, ran.stderr)

    def agent(self, name: str, command: str) -> None:
        """Configures an ACP agent."""
        folder = self.home / "tillerman"
        folder.mkdir(exist_ok=True)
        with (folder / "config.toml").open("a") as config:
            config.write(f'[agents.{name}]\nacp = "{command}"\n')
