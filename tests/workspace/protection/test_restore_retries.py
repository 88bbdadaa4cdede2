"""What could not be restored at once: retried while programs run, and reported."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.workspace.protected_tricks import EVIL, GOOD
from tillerman.workspace.protection import known_state, protected_names
from tillerman.workspace.protection.watcher import Watcher

Git = Callable[..., str]


@pytest.fixture
async def watch(root: Path, tmp_path: Path) -> AsyncIterator[Watcher]:
    found = Watcher(root, tmp_path / "aside")
    yield found
    await found.close()


async def until(condition: Callable[[], object]) -> None:
    for _ in range(500):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not come to pass in 5 s")


def mounted(*words: str | Path) -> bool:
    return not subprocess.run(words, capture_output=True, check=False).returncode


async def test_what_could_not_be_restored_is_restored_once_it_can_be(
    root: Path, watch: Watcher
) -> None:
    """Its folder is created again while the program still runs."""
    (root / "a/pkg").mkdir(parents=True)
    (root / "a/pkg/.env").write_bytes(GOOD)
    hold = await watch.begin()
    shutil.rmtree(root / "a")
    await until(lambda: any(not one.restored for one in hold.found))
    assert [(one.path, one.why) for one in hold.found] == [
        ("a/pkg/.env", "its folder no longer exists")
    ]
    (root / "a/pkg").mkdir(parents=True)
    await until((root / "a/pkg/.env").exists)
    assert (root / "a/pkg/.env").read_bytes() == GOOD
    assert [(one.path, one.act, one.restored) for one in await hold.end()] == [
        ("a/pkg/.env", "deleted", True)
    ]


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a file that not even root may replace")
async def test_an_immutable_name_is_retried_without_any_event(root: Path, watch: Watcher) -> None:
    name = root / ".mcp.json"
    name.write_bytes(GOOD)
    hold = await watch.begin()
    name.write_bytes(EVIL)
    if not mounted("mount", "--bind", name, name):
        pytest.skip("nothing can be mounted here")
    try:
        await until(lambda: any(not one.restored for one in hold.found))
    finally:
        assert mounted("umount", name)
    await until(lambda: name.read_bytes() == GOOD)
    assert [(one.path, one.act, one.restored) for one in await hold.end()] == [
        (".mcp.json", "changed", True)
    ]


async def test_what_cannot_be_restored_is_reported_once_and_not_polled(
    root: Path, watch: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protected_names, "KEPT_FILE", 10)
    (root / ".env").write_bytes(b"x" * 11)
    hold = await watch.begin()
    (root / ".env").write_bytes(b"y" * 11)
    await until(lambda: hold.found)
    looks: list[int] = []
    real = protected_names.scan
    await asyncio.sleep(0.5)
    monkeypatch.setattr(known_state, "scan", lambda *a, **b: looks.append(1) or real(*a, **b))
    await asyncio.sleep(1.2)
    assert looks == []
    assert [(one.path, one.restored) for one in await hold.end()] == [(".env", False)]


async def test_many_other_events_do_not_delay_a_waiting_decision(
    repository: Path, git: Git, watch: Watcher
) -> None:
    """A git file is restored in time while a build writes without a pause."""
    (repository / ".envrc").write_bytes(GOOD)
    git("add", "-f", ".envrc")
    git("commit", "-qm", "envrc")
    hold = await watch.begin()
    build = "i=0; while [ ! -e stop ]; do : > b$i; i=$(((i+1)%50)); done"
    shell = await asyncio.create_subprocess_exec("sh", "-c", build, cwd=repository)
    try:
        await until((repository / "b1").exists)
        (repository / ".git/index.lock").touch()
        (repository / ".envrc").write_bytes(EVIL)
        await until(lambda: (repository / ".envrc").read_bytes() == GOOD)
    finally:
        (repository / "stop").touch()
        await shell.wait()
    await hold.end()


@pytest.mark.parametrize("name", [".env", ".mcp.json", ".git/hooks/pre-commit"])
def test_a_file_removed_while_it_is_scanned_is_restored(name: str, tmp_path: Path) -> None:
    root = tmp_path / "work"
    (root / name).parent.mkdir(parents=True)
    watch = Watcher(root, tmp_path / "aside")
    try:
        for _ in range(150):
            (root / name).write_bytes(GOOD)
            watch.accept()
            begin = threading.Barrier(2)

            def remove(begin: threading.Barrier = begin) -> None:
                begin.wait()
                (root / name).unlink()

            with ThreadPoolExecutor(1) as pool:
                removed = pool.submit(remove)
                begin.wait()
                while not removed.done():
                    watch.check()
                removed.result()
            watch.check()
            watch.check()
            assert (root / name).read_bytes() == GOOD
    finally:
        asyncio.run(watch.close())
