"""A user's machine in a folder: a home, a project, and stand-ins for agents."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.stand_ins.cursor_stand_in import install_cursor
from tillerman.paths import find_paths

CLAUDE = """\
words = sys.argv[1:]
if words == ["--version"]:
    print("2.1.325 (Claude Code)")
elif words == ["auth", "status"]:
    print(json.dumps({"loggedIn": False, "authMethod": "none"}))
    sys.exit(1)
else:
    sys.exit(f"no such command: {words}")
"""


class Machine:
    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.home = folder / "home"
        self.project = folder / "project"
        self.bin = self.home / "bin"
        for path in (self.home, self.project, self.bin):
            path.mkdir()
        monkeypatch.setenv("HOME", str(self.home))
        monkeypatch.setenv("PATH", f"{self.bin}:/usr/bin:/bin")
        monkeypatch.delenv("NO_COLOR", raising=False)
        monkeypatch.chdir(self.project)

    def has_claude(self) -> None:
        """Installs it without a signed-in account."""
        program = self.bin / "claude"
        program.write_text(f"#!{sys.executable} -I\nimport json, sys\n{CLAUDE}")
        program.chmod(0o755)

    def has_cursor(self) -> None:
        """Installs it with a signed-in account."""
        install_cursor(self.bin, self.home)

    def config(self, text: str) -> None:
        file = find_paths({"TILLERMAN_HOME": str(self.home / "tillerman")}).config_file
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def has_servers(self) -> None:
        """Configures servers of Cursor."""
        offered = {"search": ["query", "limit"], "fetch": ["url"]}
        servers = {"docs": {"command": "npx", "args": ["docs-server"], "tools": offered}}
        servers["tracker"] = {"command": "tracker", "args": ["--mcp"], "tools": {}}
        (self.home / ".cursor").mkdir(exist_ok=True)
        (self.home / ".cursor" / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
