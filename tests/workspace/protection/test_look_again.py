"""The quick look at protected names never takes for unchanged what the whole look finds changed."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tillerman.workspace.protection.differences import changed_instructions, differences
from tillerman.workspace.protection.protected_names import rescan, scan

NAMES = (".git/config", ".git/hooks/pre-commit", ".vscode/tasks.json", ".envrc", "lib/.env")


def make(root: Path) -> None:
    for name in (*NAMES, "AGENTS.md", "lib/a.py", "lib/b.py", ".git/HEAD"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{name} as it was\n")


def through_another_name(path: Path) -> None:
    other = path.parent / "other-name"
    other.hardlink_to(path)
    other.write_text("x" * path.stat().st_size)
    other.unlink()


def replaced_by_a_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("elsewhere")


CHANGES: tuple[Callable[[Path], object], ...] = (
    lambda path: path.write_text("evil"),
    lambda path: path.unlink(),
    lambda path: path.chmod(0o777),
    lambda path: path.rename(path.with_name("moved")),
    lambda path: os.utime(path, (1, 1)),
    lambda path: (path.parent / ".mcp.json").write_text("{}"),
    lambda path: (path.parent / "new").mkdir(),
    lambda path: (path.parent / "plain.txt").write_text("x"),
    replaced_by_a_link,
    lambda path: path.read_text(),
    through_another_name,
)


@pytest.mark.parametrize("seed", range(60))
def test_a_quick_scan_finds_what_a_full_scan_finds(tmp_path: Path, seed: int) -> None:
    make(tmp_path)
    root = os.open(tmp_path, os.O_RDONLY)
    try:
        before = scan(root, baseline=True)
        before = before._replace(at=before.at + 10**10)  # all of it is older than the clock's tick
        assert rescan(root, before) is not None
        pick = random.Random(seed)
        for _ in range(pick.randint(1, 3)):
            path = tmp_path / pick.choice((*NAMES, "AGENTS.md", "lib/a.py"))
            if path.is_file():
                pick.choice(CHANGES)(path)
        after = scan(root, before, baseline=False)
        changed = differences(before, after) or changed_instructions(before, after)
        if changed or after.has_new_folders:
            again = rescan(root, before)
            assert again is None or again.has_new_folders, changed
    finally:
        os.close(root)
