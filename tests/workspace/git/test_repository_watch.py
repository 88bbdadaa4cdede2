"""What notifies watchers of a repository: real changes by git and by hand, without a timer."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.workspace.repositories import Git
from tillerman.workspace.git import repository_watch
from tillerman.workspace.git.repository_state import read_repository
from tillerman.workspace.git.repository_watch import FolderWatch

SOON = 5.0
QUIET, LONGEST = 0.1, 1.0


@pytest.fixture(autouse=True)
def one_is_impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repository_watch, "QUIET", QUIET)
    monkeypatch.setattr(repository_watch, "LONGEST", LONGEST)


@pytest.fixture
async def watch(repository: Path) -> AsyncIterator[FolderWatch]:
    made = FolderWatch(repository)
    await made.arm()
    yield made
    made.close()


async def received(watch: FolderWatch, seconds: float = SOON) -> bool:
    try:
        await asyncio.wait_for(watch.changed(), seconds)
    except TimeoutError:
        return False
    return True


async def test_changes_by_git_are_noticed(watch: FolderWatch, repository: Path, git: Git) -> None:
    (repository / "a.py").write_text("edited\n")
    assert await received(watch)
    for words in (
        ("add", "a.py"),
        ("commit", "--quiet", "-m", "edit"),
        ("switch", "--quiet", "-c", "feature/one"),
        ("commit", "--quiet", "--allow-empty", "-m", "more"),
        ("switch", "--quiet", "main"),
        ("branch", "--quiet", "-D", "feature/one"),
        ("pack-refs", "--all"),
        ("remote", "add", "origin", "https://example.org/x.git"),
        ("update-ref", "refs/remotes/origin/main", "HEAD"),
        ("switch", "--quiet", "--detach"),
    ):
        git(*words)
        assert await received(watch), words


async def test_a_rebase_that_stops_is_noticed(
    watch: FolderWatch, repository: Path, git: Git
) -> None:
    git("switch", "--quiet", "-c", "feature")
    (repository / "a.py").write_text("ours\n")
    git("commit", "--quiet", "-am", "ours")
    git("switch", "--quiet", "main")
    (repository / "a.py").write_text("theirs\n")
    git("commit", "--quiet", "-am", "theirs")
    git("switch", "--quiet", "feature")
    assert await received(watch)
    with pytest.raises(AssertionError):
        git("rebase", "main")
    assert await received(watch)
    git("rebase", "--abort")
    assert await received(watch)


async def test_new_folders_are_watched_and_removed_ones_are_dropped(
    watch: FolderWatch, repository: Path
) -> None:
    before = watch.watches
    (repository / "new" / "deep").mkdir(parents=True)
    assert await received(watch)
    (repository / "new" / "deep" / "file").touch()
    assert await received(watch)
    (repository / "new").rename(repository / "other")
    assert await received(watch)
    (repository / "other" / "deep" / "file").write_text("x")
    assert await received(watch)
    assert watch.watches == before + 2
    shutil.rmtree(repository / "other")
    assert await received(watch)
    assert watch.watches == before


async def test_a_folder_that_was_moved_out_is_not_watched(
    watch: FolderWatch, repository: Path, tmp_path: Path
) -> None:
    (repository / "lib").rename(tmp_path / "lib")
    assert await received(watch)
    (tmp_path / "lib" / "b.py").write_text("x")
    assert not await received(watch, 0.4)


async def test_changes_in_ignored_files_are_not_reported(
    watch: FolderWatch, repository: Path, git: Git
) -> None:
    (repository / "build").mkdir()
    (repository / "build" / "out").write_text("x")
    (repository / "some.log").write_text("x")
    assert not await received(watch, 0.4)
    (repository / ".gitignore").write_text("*.tmp\n")
    assert await received(watch)
    (repository / "build" / "out").write_text("y")
    assert await received(watch)
    (repository / "some.tmp").write_text("x")
    assert not await received(watch, 0.4)


async def test_reading_it_triggers_nothing(watch: FolderWatch, repository: Path, git: Git) -> None:
    (repository / "a.py").write_text("edited\n")
    git("add", "a.py")
    assert await received(watch)
    await read_repository(repository)
    assert not await received(watch, 0.4)


async def test_a_burst_is_reported_once_and_an_endless_one_now_and_then(
    watch: FolderWatch, repository: Path
) -> None:
    for number in range(300):
        (repository / f"{number}.py").touch()
    began = time.monotonic()
    assert await received(watch)
    assert time.monotonic() - began < LONGEST
    assert not await received(watch, 2 * QUIET)

    async def go_on() -> None:
        for number in range(1_000):
            (repository / f"{number}.py").touch()
            await asyncio.sleep(QUIET / 6)

    writer = asyncio.create_task(go_on())
    began = time.monotonic()
    assert await received(watch, LONGEST + 2)
    assert time.monotonic() - began > LONGEST / 2
    writer.cancel()


async def test_an_overflow_of_the_event_queue_is_noticed(
    watch: FolderWatch, repository: Path
) -> None:
    most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if most > 50_000:
        pytest.skip("this system keeps more than is worth making")
    for number in range(most + 100):
        (repository / ("a.py", "lib/b.py")[number % 2]).chmod(0o644)  # never twice the same
    assert await received(watch)
    (repository / "a.py").write_text("x")
    assert await received(watch)


async def test_of_a_worktree_its_own_head_and_the_shared_branches_count(
    repository: Path, git: Git, tmp_path: Path
) -> None:
    beside = tmp_path / "beside"
    git("worktree", "add", "--quiet", str(beside), "-b", "other")
    watch = FolderWatch(beside)
    await watch.arm()
    try:
        git("commit", "--quiet", "--allow-empty", "-m", "there", cwd=beside)
        assert await received(watch)
        git("switch", "--quiet", "--detach", cwd=beside)
        assert await received(watch)
        (repository / "a.py").write_text("not ours\n")
        git("add", "a.py")
        assert not await received(watch, 0.4)
    finally:
        watch.close()


async def test_a_repository_that_begins_and_ends_is_noticed(root: Path, git: Git) -> None:
    watch = FolderWatch(root)
    await watch.arm()
    try:
        (root / "file").touch()
        assert not await received(watch, 0.4)
        git("init", "--quiet")
        assert await received(watch)
        (root / "file").write_text("x")
        assert await received(watch)
        shutil.rmtree(root / ".git")
        assert await received(watch)
        (root / "file").write_text("y")
        assert not await received(watch, 0.4)
        shutil.rmtree(root)
        assert not await received(watch, 0.4) or watch.watches == 0
        root.mkdir()
        await received(watch, 0.3)
        git("init", "--quiet")
        assert await received(watch)
    finally:
        watch.close()


async def test_no_more_is_watched_than_the_bound_and_what_is_near_the_top_comes_first(
    repository: Path, git: Git
) -> None:
    for number in range(30):
        (repository / f"d{number:02}" / "x" / "y").mkdir(parents=True)
    watch = FolderWatch(repository, most=40)
    await watch.arm()
    try:
        assert watch.watches == 40
        (repository / "d29" / "file").touch()
        assert await received(watch)
        git("commit", "--quiet", "--allow-empty", "-m", "more")
        assert await received(watch)
    finally:
        watch.close()


async def test_links_and_repositories_inside_are_not_entered(
    repository: Path, git: Git, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (repository / "link").symlink_to(tmp_path / "elsewhere")
    (repository / "inner" / "src").mkdir(parents=True)
    git("init", "--quiet", cwd=repository / "inner")
    watch = FolderWatch(repository)
    await watch.arm()
    try:
        (tmp_path / "elsewhere" / "file").touch()
        (repository / "inner" / "src" / "file").touch()
        assert not await received(watch, 0.4)
    finally:
        watch.close()


async def test_it_can_be_closed_while_it_begins(repository: Path) -> None:
    for number in range(500):
        (repository / f"d{number}").mkdir()
    before = descriptors()
    for pause in (0.0, 0.001, 0.005):
        watch = FolderWatch(repository)
        begins = asyncio.create_task(watch.arm())
        await asyncio.sleep(pause)
        begins.cancel()
        watch.close()
    await until(lambda: descriptors() <= before)


async def test_without_inotify_it_reports_so(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repository_watch.inotify, "_libc", object())  # as on a system without it
    with pytest.raises(OSError, match="no inotify"):
        FolderWatch(repository)


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(SOON):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
