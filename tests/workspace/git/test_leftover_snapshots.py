"""Snapshots that a killed process left are removed at the next start; those in use are not."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tillerman.workspace.git import work_tree_snapshot
from tillerman.workspace.git.git import Deadline


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of snapshots, of this process and of those that it starts."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q", tmp_path / "project"], check=True)
    return tmp_path / "project"


HOLDER = """
import os, signal, sys
from pathlib import Path
from tillerman.workspace.git.git import Deadline
from tillerman.workspace.git.work_tree_snapshot import capture
snapshot = capture(Path(sys.argv[1]), Deadline(10))
print(snapshot.store, flush=True)
sys.stdin.readline()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_only_leftovers_of_a_dead_process_are_removed(folder: Path, project: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, project], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdin and holder.stdout
        store = Path(holder.stdout.readline().decode().strip())
        work_tree_snapshot.sweep()
        assert store.exists()
        holder.stdin.close()
    work_tree_snapshot.sweep()
    assert list(folder.iterdir()) == []


SWEEPER = """
from tillerman.workspace.git.work_tree_snapshot import sweep
print("ready", flush=True)
while True:
    sweep()
"""


def test_a_snapshot_is_complete_though_another_process_sweeps(project: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", SWEEPER], stdout=subprocess.PIPE) as sweeper:
        assert sweeper.stdout
        sweeper.stdout.readline()
        try:
            for _ in range(12):
                snapshot = work_tree_snapshot.capture(project, Deadline(10))
                assert snapshot
                assert snapshot.index.parent.is_dir()
                snapshot.close()
        finally:
            sweeper.kill()
