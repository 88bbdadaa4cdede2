"""A killed tillerman left its hooks in a file; the next one that starts removes them."""

from __future__ import annotations

import os
from pathlib import Path

from tillerman.harness.harness import open_harness
from tillerman.hooks.backup_journal import BackupJournal
from tillerman.hooks.install import Hooks, installed
from tillerman.paths import find_paths


def killed_with_hooks_in(file: Path, journal: BackupJournal) -> None:
    child = os.fork()
    if child == 0:
        with installed(Hooks("cursor", file, {"stop": {"command": "x"}}), journal):
            os._exit(0)
    os.waitpid(child, 0)


async def test_the_next_start_puts_the_file_back(tmp_path: Path) -> None:
    paths = find_paths({"TILLERMAN_HOME": str(tmp_path / "tillerman")})
    file = tmp_path / "project" / ".cursor" / "hooks.json"
    (tmp_path / "project").mkdir()
    killed_with_hooks_in(file, BackupJournal(paths.hooks))
    assert b'"x"' in file.read_bytes()

    async with open_harness(cwd=tmp_path / "project", paths=paths):
        assert list((tmp_path / "project").iterdir()) == []
    assert BackupJournal(paths.hooks).records() == []
