"""`tillerman protected`: undone changes are listed, and applied again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tillerman.paths import find_paths
from tillerman.workspace.protection.restore.quarantine import Quarantine


def tillerman(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "TILLERMAN_HOME": str(home / "tillerman")}
    return subprocess.run(
        [sys.executable, "-m", "tillerman", *words],
        env=env,
        cwd=home,
        capture_output=True,
        text=True,
    )


def undone(home: Path, name: str, text: str) -> Path:
    """A change that a session undid."""
    workspace = home / "project"
    workspace.mkdir(exist_ok=True)
    (workspace / name).write_text(text)
    paths = find_paths({"TILLERMAN_HOME": str(home / "tillerman")})
    folder = os.open(workspace, os.O_RDONLY)
    Quarantine(paths.quarantine / "session1", workspace).move_in(folder, name, name)
    os.close(folder)
    return workspace / name


def test_undone_changes_are_listed_and_restored(tmp_path: Path) -> None:
    assert tillerman(tmp_path, "protected", "list").stdout == (
        "no changes of protected names were undone\n"
    )
    path = undone(tmp_path, ".mcp.json", "{}")
    assert not path.exists()
    (row,) = json.loads(tillerman(tmp_path, "protected", "list", "--json").stdout)
    assert (row["path"], row["act"], row["session"]) == (".mcp.json", "created", "session1")
    assert row["id"] in tillerman(tmp_path, "protected", "list").stdout
    output = tillerman(tmp_path, "protected", "take-back", row["id"])
    assert (output.returncode, path.read_text()) == (0, "{}")
    assert json.loads(tillerman(tmp_path, "protected", "list", "--json").stdout) == []
    (row,) = json.loads(tillerman(tmp_path, "protected", "list", "--all", "--json").stdout)
    assert row["taken_back"] is True


def test_an_unknown_change_is_refused_with_the_next_step(tmp_path: Path) -> None:
    output = tillerman(tmp_path, "protected", "take-back", "ffff")
    assert output.returncode == 2
    assert "`tillerman protected list --all` lists them" in output.stderr
