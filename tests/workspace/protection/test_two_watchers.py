"""Two sessions in one workspace, and a program that writes all the time: both restore the same
state."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.workspace.protected_tricks import EVIL, GOOD
from tillerman.workspace.protection import known_state
from tillerman.workspace.protection.differences import state_digest
from tillerman.workspace.protection.protected_names import scan
from tillerman.workspace.protection.protected_state import State
from tillerman.workspace.protection.restore.accepted import MOST_IN_DIGEST, Accepted, digest
from tillerman.workspace.protection.restore.contents import tree_digest
from tillerman.workspace.protection.watcher import Watcher

# Unlinked, made, replaced, linked: without a pause, so that a look may see any of it.
FIGHT = """
i=0
while [ $i -lt {count} ]; do
  rm -rf .mcp.json .claude
  echo evil > .mcp.json
  echo evil > x; mv x .mcp.json
  mkdir .claude; echo evil > .claude/settings.json
  chmod 777 .mcp.json
  i=$((i+1))
done
rm -rf .mcp.json .claude .env
"""


@pytest.mark.parametrize("count", [60, pytest.param(3_000, marks=pytest.mark.torture)])
@pytest.mark.timeout(600)
async def test_two_watchers_and_a_persistent_writer_end_with_the_original(
    tmp_path: Path, count: int
) -> None:
    root = tmp_path / "work"
    (root / ".claude").mkdir(parents=True)
    for name in (".mcp.json", ".env", ".claude/settings.json"):
        (root / name).write_bytes(GOOD)
        (root / name).chmod(0o640)
    watchers = [
        Watcher(root, tmp_path / str(number), accepted=tmp_path / "accepted") for number in range(2)
    ]
    holds = [await watcher.begin() for watcher in watchers]
    shell = await asyncio.create_subprocess_exec("sh", "-c", FIGHT.format(count=count), cwd=root)
    await shell.wait()
    for hold in holds:
        await hold.end()
    for watcher in watchers:
        await watcher.close()
    found = {
        str(path.relative_to(root)): (stat.S_IMODE(path.stat().st_mode), path.read_bytes())
        for path in root.rglob("*")
        if path.is_file()
    }
    assert found == dict.fromkeys((".mcp.json", ".env", ".claude/settings.json"), (0o640, GOOD))


async def test_a_takeover_has_the_accepted_state_and_not_changes_in_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program removes the file just while it is read, and the other session restores it."""
    root = tmp_path / "work"
    root.mkdir()
    (root / ".mcp.json").write_bytes(EVIL)
    known = tmp_path / "accepted"
    Accepted(known, root, since=1).add(".mcp.json", digest("file", GOOD))
    watch = Watcher(root, tmp_path / "aside", accepted=known)
    watch.accept()
    (root / ".mcp.json").write_bytes(GOOD)
    removals = iter([True])

    def look_in_between(*words: Any, **more: Any) -> State:
        if not more["baseline"] or not next(removals, False):
            return scan(*words, **more)
        (root / ".mcp.json").unlink()
        seen = scan(*words, **more)
        (root / ".mcp.json").write_bytes(GOOD)
        return seen

    monkeypatch.setattr(known_state, "scan", look_in_between)
    assert watch.check() == ()
    (root / ".mcp.json").unlink()
    assert [(one.path, one.act, one.restored) for one in watch.check()] == [
        (".mcp.json", "deleted", True)
    ]
    assert (root / ".mcp.json").read_bytes() == GOOD
    await watch.close()


def test_the_digest_of_the_observed_state_matches_the_files(tmp_path: Path) -> None:
    (tmp_path / ".claude/a/b").mkdir(parents=True)
    (tmp_path / ".claude/a/b/c").write_bytes(EVIL)
    (tmp_path / ".claude/empty").mkdir()
    (tmp_path / ".claude/link").symlink_to("a/b")
    (tmp_path / ".claude/many").mkdir()
    for number in range(MOST_IN_DIGEST // 2 + 20):
        (tmp_path / f".claude/many/{number}").touch()
    (tmp_path / ".env").write_bytes(GOOD)
    root = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    seen = scan(root, baseline=True)
    for name in (".claude", ".env", ".claude/a", ".claude/link"):
        parent, _, last = name.rpartition("/")
        folder = os.open(parent or ".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=root)
        assert state_digest(seen, name) == tree_digest(folder, last)
        os.close(folder)
    os.close(root)
