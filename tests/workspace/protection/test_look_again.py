"""The quick check of protected names misses no change that the full check finds."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tillerman.workspace.protection.differences import changed_instructions, differences
from tillerman.workspace.protection.protected_names import rescan, scan
from tillerman.workspace.protection.watcher import Watcher

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


@pytest.mark.parametrize("steps", range(12))
async def test_a_start_that_is_cancelled_while_the_watch_ends_is_cancelled(
    root: Path, tmp_path: Path, steps: int
) -> None:
    watcher = Watcher(root, tmp_path / "aside")
    await (await watcher.begin()).end()
    (root / ".mcp.json").write_text("{}")  # the armed watch cannot be used again
    starting = asyncio.create_task(watcher.begin())
    for _ in range(steps):
        await asyncio.sleep(0)
    was_done = starting.done()
    starting.cancel()
    await asyncio.wait({starting})
    assert starting.cancelled() or was_done
    async with asyncio.timeout(20):
        await (await watcher.begin()).end()
        await watcher.close()


@pytest.mark.parametrize("name", [".claude", ".codex", ".agents"])
@pytest.mark.parametrize("pause", [0.0, 0.02, 0.05, 0.1, 0.2, 0.3])
async def test_an_empty_folder_that_a_command_makes_is_gone_at_its_end(
    root: Path, tmp_path: Path, name: str, pause: float
) -> None:
    """A sandbox of another program may make such a folder for a short time, but not keep it."""
    watcher = Watcher(root, tmp_path / "aside")
    hold = await watcher.begin()
    await asyncio.sleep(0.2)  # the watch is armed
    (root / name).mkdir()
    await asyncio.sleep(pause)
    await hold.end()
    left = (root / name).exists()
    await watcher.close()
    assert not left


@pytest.mark.parametrize("seed", range(4))
async def test_what_a_command_makes_while_its_other_files_are_restored_is_gone_at_its_end(
    root: Path, tmp_path: Path, seed: int
) -> None:
    pick = random.Random(seed)
    watcher = Watcher(root, tmp_path / "aside")
    names = (".env", ".claude", ".codex", ".mcp.json", ".husky")
    for number in range(40):
        hold = await watcher.begin()
        await asyncio.sleep(0.02 if number else 0.2)  # the watch is armed
        (root / ".env").write_text("evil")
        made = pick.sample(names[1:], pick.randint(1, 3))
        for name in made:
            await asyncio.sleep(pick.choice((0, 0.001, 0.002, 0.004, 0.008)))
            (root / name).mkdir()
        await asyncio.sleep(pick.choice((0, 0, 0.001)))
        await hold.end()
        assert [name for name in names if (root / name).exists()] == [], number
    await watcher.close()
