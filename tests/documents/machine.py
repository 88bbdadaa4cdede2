"""A user's machine for command blocks: bash, a git project, and stand-ins for external programs.

`tillerman` is the real program. Names of agents that are installed separately become the mock
agent, and commands that run until they are interrupted are interrupted after a moment. `ssh` runs
its command locally.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests import CHECKOUT

_TILLERMAN = f"""#!/bin/sh
exec {sys.executable} -m tests.documents.tillerman_with_mock "$@"
"""
_SSH = """#!/bin/sh
# options and the host, then the command
while [ "${1#-}" != "$1" ]; do [ "$1" = -L ] && shift; shift; done
shift
exec sh -c "$*"
"""
_GIT = ("-c", "user.name=A", "-c", "user.email=a@example.com")


class Machine:
    """A machine in a separate folder."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.project = folder / "project"
        programs = folder / "bin"
        for path in (self.home, self.project, programs):
            path.mkdir()
        for name, text in (("tillerman", _TILLERMAN), ("ssh", _SSH)):
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        self.environment = {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PYTHONPATH": str(CHECKOUT),
            "PYTHONSAFEPATH": "1",
            "HOME": str(self.home),
            "TILLERMAN_HOME": str(folder / "tillerman"),
            "TILLERMAN_AGENT": "mock",
            "TILLERMAN_MOCK_STATE": str(folder / "mock"),
            "TILLERMAN_LIMITS_REQUEST": "1",
            "LANG": "C.UTF-8",
        }
        for words in (
            ["init", "-q", "-b", "main"],
            [*_GIT, "commit", "-q", "--allow-empty", "-m", "Begin"],
        ):
            subprocess.run(["git", *words], cwd=self.project, env=self.environment, check=True)
        (self.project / "notes.txt").write_text("To do: a greeting.\n")

    def bash(self, script: str) -> subprocess.CompletedProcess[str]:
        """Stops at the first command that fails."""
        return subprocess.run(
            ["bash", "-eu", "-o", "pipefail", "-c", script],
            cwd=self.project,
            env=self.environment,
            input="",
            capture_output=True,
            text=True,
            timeout=120,
        )
