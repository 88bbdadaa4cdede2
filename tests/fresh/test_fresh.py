"""If no minimal root can be built, `make test-fresh` prints the reason and passes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import CHECKOUT

FRESH = [sys.executable, "-m", "tests.fresh"]


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user is refused before that")
def test_without_debootstrap_it_reports_so_and_passes(tmp_path: Path) -> None:
    env = {"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run(FRESH, cwd=CHECKOUT, env=env, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (
        0,
        "test-fresh: skipped: debootstrap is not installed\n",
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="this is root")
def test_an_ordinary_user_learns_that_only_root_can_and_it_passes(tmp_path: Path) -> None:
    env = {"PATH": os.defpath, "XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run(FRESH, cwd=CHECKOUT, env=env, capture_output=True, text=True)
    message = "test-fresh: skipped: only root can build a root and enter it\n"
    assert (done.returncode, done.stdout) == (0, message)


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user is refused before that")
def test_a_root_that_cannot_be_built_leaves_no_partial_root(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    script = 'for folder; do :; done; mkdir "$folder/usr"; echo E: no such mirror >&2; exit 1'
    (tools / "debootstrap").write_text(f"#!/bin/sh\n{script}\n")
    (tools / "debootstrap").chmod(0o755)
    env = {"PATH": f"{tools}:{os.defpath}", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run(FRESH, cwd=CHECKOUT, env=env, capture_output=True, text=True)
    if done.stdout.endswith("gives no mount namespace\n"):
        pytest.skip(done.stdout)
    message = "test-fresh: skipped: debootstrap failed: E: no such mirror\n"
    assert (done.returncode, done.stdout) == (0, message), done.stderr
    assert list((tmp_path / "cache/tillerman/fresh").iterdir()) == []
