"""What a turn changed on disk."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tillerman.core.events import Entry, FileChange, FilesChanged, decode_entry, encode
from tillerman.workspace.files import file_signatures
from tillerman.workspace.files.file_signatures import FolderSnapshot
from tillerman.workspace.git import work_tree_snapshot
from tillerman.workspace.git.git import Deadline
from tillerman.workspace.git.turn_changes import (
    Changes,
    UnreadableWorkspace,
    changed_since,
    snapshot,
)
from tillerman.workspace.git.work_tree_snapshot import READ_FILE_BYTES

Git = Callable[..., str]


async def changes(root: Path, turn: Callable[[], object]) -> Changes:
    before = await snapshot(root)
    turn()
    found = await changed_since(before)
    before.close()
    return found


def test_closing_a_snapshot_leaves_no_temporary_files(repository: Path) -> None:
    stored = work_tree_snapshot.capture(repository, Deadline(10))
    assert stored is not None
    store = stored.store
    assert (store / "index").is_file()
    assert oct(store.stat().st_mode & 0o777) == "0o700"
    stored.close()
    assert not store.exists()


async def test_edits_by_any_means_are_reported_with_their_lines(repository: Path) -> None:
    def turn() -> None:
        (repository / "a.py").write_text("one\nTWO\nthree\nfour\n")
        (repository / "new.py").write_text("x\ny\n")
        (repository / "lib" / "b.py").rename(repository / "lib" / "c.py")
        (repository / "noise.log").write_text("ignored")
        (repository / "build").mkdir()
        (repository / "build" / "out.py").write_text("ignored")
        (repository / "data.bin").write_bytes(b"\0\1\2")

    assert await changes(repository, turn) == Changes(
        (
            FileChange("a.py", "modified", 2, 1),
            FileChange("data.bin", "added"),
            FileChange("lib/c.py", "renamed", 0, 0, "lib/b.py"),
            FileChange("new.py", "added", 2, 0),
        )
    )


async def test_a_turn_without_changes_reports_nothing(repository: Path) -> None:
    (repository / "a.py").write_text("dirty already\n")
    (repository / "untracked.py").write_text("here already\n")

    def turn() -> None:
        (repository / "a.py").write_text("dirty already\n")
        os.utime(repository / "untracked.py")

    assert await changes(repository, turn) == Changes()


async def test_earlier_work_is_not_counted_to_the_turn(repository: Path) -> None:
    (repository / "a.py").write_text("one\ntwo\nthree\nmine\n")
    (repository / "draft.md").write_text("mine\n")
    (repository / "lib" / "b.py").unlink()

    def turn() -> None:
        (repository / "a.py").write_text("one\ntwo\nthree\nmine\nthe agent's\n")
        (repository / "draft.md").unlink()

    assert await changes(repository, turn) == Changes(
        (FileChange("a.py", "modified", 1, 0), FileChange("draft.md", "deleted", 0, 1))
    )


async def test_what_the_agent_commits_counts_as_changed(repository: Path, git: Git) -> None:
    def turn() -> None:
        (repository / "a.py").write_text("one\n")
        git("checkout", "--quiet", "-b", "other")
        git("commit", "--quiet", "-a", "-m", "agent")
        git("rm", "--quiet", "--cached", "lib/b.py")

    assert await changes(repository, turn) == Changes((FileChange("a.py", "modified", 0, 2),))


async def test_a_session_in_a_subfolder_sees_its_own_files_only(repository: Path) -> None:
    def turn() -> None:
        (repository / "a.py").write_text("elsewhere\n")
        (repository / "lib" / "b.py").write_text("alpha\n")

    assert await changes(repository / "lib", turn) == Changes(
        (FileChange("b.py", "modified", 0, 3),)
    )


async def test_a_repository_without_commits_is_seen(root: Path, git: Git) -> None:
    git("init", "--quiet")
    (root / "before.py").write_text("x\n")
    assert await changes(root, lambda: (root / "after.py").write_text("y\n")) == Changes(
        (FileChange("after.py", "added", 1, 0),)
    )


async def test_a_merge_under_way_is_seen(repository: Path, git: Git) -> None:
    git("checkout", "--quiet", "-b", "side")
    (repository / "a.py").write_text("side\n")
    git("commit", "--quiet", "-a", "-m", "side")
    git("checkout", "--quiet", "main")
    (repository / "a.py").write_text("main\n")
    git("commit", "--quiet", "-a", "-m", "main")
    with pytest.raises(AssertionError):
        git("merge", "side")

    def turn() -> None:
        (repository / "a.py").write_text("both\n")

    found = await changes(repository, turn)
    assert [(each.path, each.change, each.added) for each in found.files] == [
        ("a.py", "modified", 1)
    ]


async def test_a_linked_worktree_is_seen(repository: Path, git: Git, tmp_path: Path) -> None:
    git("worktree", "add", "--quiet", str(tmp_path / "linked"))
    linked = tmp_path / "linked"
    assert await changes(linked, (linked / "a.py").unlink) == Changes(
        (FileChange("a.py", "deleted", 0, 3),)
    )


async def test_an_index_in_two_halves_is_read_and_not_written(repository: Path, git: Git) -> None:
    git("update-index", "--split-index")
    before = _picture(repository / ".git")
    found = await changes(repository, lambda: (repository / "a.py").write_text("one\n"))
    assert found == Changes((FileChange("a.py", "modified", 0, 2),))
    assert _picture(repository / ".git") == before


async def test_links_and_names_that_are_not_text_can_be_stored(repository: Path) -> None:
    def turn() -> None:
        (repository / "link").symlink_to("a.py")
        Path(os.fsdecode(os.fsencode(repository) + b"/caf\xe9")).write_text("x\n")

    found = await changes(repository, turn)
    assert found == Changes((FileChange("caf�", "added", 1, 0), FileChange("link", "added", 1, 0)))
    event = FilesChanged(files=found.files)
    entry = Entry(session="s", seq=1, turn=1, at="2026-01-01T00:00:00Z", event=event)
    assert decode_entry(encode(entry)) == entry


async def test_large_files_are_compared_without_reading_them(repository: Path) -> None:
    big, other = repository / "big.dat", repository / "other.dat"
    for file in (big, other):
        file.write_bytes(b"x" * (READ_FILE_BYTES + 1))

    def turn() -> None:
        big.write_bytes(b"y" * (READ_FILE_BYTES + 1))
        (repository / "huge.dat").write_bytes(b"z" * (READ_FILE_BYTES + 2))
        other.unlink()

    assert await changes(repository, turn) == Changes(
        (
            FileChange("big.dat", "modified"),
            FileChange("huge.dat", "added"),
            FileChange("other.dat", "deleted"),
        )
    )


async def test_repositories_inside_the_workspace_are_skipped(repository: Path, git: Git) -> None:
    nested = repository / "nested"
    nested.mkdir()
    git("init", "--quiet", cwd=nested)
    assert await changes(repository, lambda: (nested / "x").write_text("x")) == Changes()


async def test_asking_twice_gives_all_changes_since_the_snapshot(repository: Path) -> None:
    before = await snapshot(repository)
    (repository / "a.py").write_text("one\n")
    first = await changed_since(before)
    (repository / "new.py").write_text("x\n")
    second = await changed_since(before)
    assert (first.files, second.files) == (
        (FileChange("a.py", "modified", 0, 2),),
        (FileChange("a.py", "modified", 0, 2), FileChange("new.py", "added", 1, 0)),
    )


async def test_the_users_repository_is_unchanged(repository: Path) -> None:
    (repository / "untracked.py").write_text("x\n")
    (repository / "a.py").write_text("dirty\n")
    before = _picture(repository / ".git")
    found = await changes(repository, lambda: (repository / "a.py").write_text("dirtier\n"))
    assert found.files == (FileChange("a.py", "modified", 1, 1),)
    assert _picture(repository / ".git") == before


async def test_no_program_that_the_repository_names_is_run(
    repository: Path, git: Git, tmp_path: Path
) -> None:
    marker = tmp_path / "marker"
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\necho $0 $* >> {marker}\ncat\n")
    trap.chmod(0o755)
    for key in (
        "core.fsmonitor", "core.pager", "core.editor", "core.sshCommand", "core.askPass",
        "core.gitProxy", "core.alternateRefsCommand", "credential.helper", "diff.external",
        "diff.bad.command", "diff.bad.textconv", "filter.bad.clean", "filter.bad.smudge",
        "filter.a=b.clean", "filter.proc.process", "merge.bad.driver", "gpg.program",
        "sequence.editor", "pager.diff-tree", "alias.ls-files", "remote.origin.uploadpack",
        "remote.origin.vcs", "uploadpack.packObjectsHook",
    ):  # fmt: skip
        git("config", key, str(trap))
    git("config", "core.hooksPath", str(tmp_path / "hooks"))
    git("config", "extensions.partialClone", "origin")
    git("config", "remote.origin.url", f"ext::{trap}")
    git("config", "remote.origin.promisor", "true")
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for hook in ("post-index-change", "pre-commit", "post-checkout", "fsmonitor-watchman"):
        (hooks / hook).symlink_to(trap)
    (repository / ".gitattributes").write_text(
        "a.py filter=bad diff=bad merge=bad\nlib/* filter=a=b diff=bad\n*.md filter=proc\n"
    )

    def turn() -> None:
        (repository / "a.py").write_text("changed\n")
        (repository / "lib" / "b.py").write_text("changed\n")
        (repository / "x.md").write_text("new\n")

    marker.unlink(missing_ok=True)
    found = await changes(repository, turn)
    assert [each.path for each in found.files] == ["a.py", "lib/b.py", "x.md"]
    assert not marker.exists(), marker.read_text()
    git("add", "a.py")
    assert marker.exists()  # the trap does work


async def test_a_folder_that_its_repository_ignores_is_seen_as_a_plain_folder(
    repository: Path,
) -> None:
    (repository / "build").mkdir()
    before = await snapshot(repository / "build")
    assert isinstance(before, FolderSnapshot)
    (repository / "build" / "out.py").write_text("x\ny\n")
    assert await changed_since(before) == Changes((FileChange("out.py", "added", 2, 0),))


async def test_a_folder_outside_git_is_compared_by_content(root: Path) -> None:
    (root / "sub").mkdir()
    for name in ("kept", "touched", "sub/changed", "gone"):
        (root / name).write_text(f"{name}\n")
    (root / "node_modules").mkdir()

    def turn() -> None:
        os.utime(root / "touched", (1, 1))
        (root / "sub" / "changed").write_text("CHANGED!!!\n")
        (root / "gone").unlink()
        (root / "new").write_text("1\n2\n3")
        (root / "blob").write_bytes(b"\0")
        (root / "node_modules" / "x.js").write_text("skipped")

    assert await changes(root, turn) == Changes(
        (
            FileChange("blob", "added", None, 0),
            FileChange("gone", "deleted"),
            FileChange("new", "added", 3, 0),
            FileChange("sub/changed", "modified"),
        )
    )


async def test_a_folder_too_large_to_snapshot_is_reported_and_new_files_are_still_listed(
    root: Path,
) -> None:
    for number in range(20):
        (root / f"old{number}").write_text("x")
    _let_the_file_clock_tick()
    before = file_signatures.capture(root, 5.0, most=10)
    (root / "new").write_text("y\n")
    assert await changed_since(before) == Changes(
        (FileChange("new", "added", 1, 0),),
        note="only 10 files of this folder were checked; of the others, only new files are "
        "detected",
    )


async def test_more_changes_than_the_limit_are_counted(repository: Path) -> None:
    def turn() -> None:
        for number in range(1_005):
            (repository / f"n{number:04}").write_text("x\n")

    found = await changes(repository, turn)
    assert (len(found.files), found.left_out) == (1_000, 5)


async def test_a_git_that_hangs_is_given_up_with_a_notice(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "bin" / "git"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\nexec sleep 60\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    before = await snapshot(repository, seconds=0.2)
    why = "cannot determine the changes of this turn: git rev-parse took longer than 0.2 s"
    assert before == UnreadableWorkspace(why)
    assert await changed_since(before) == Changes(note=why)


async def test_without_git_a_repository_is_a_plain_folder(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert await changes(repository, (repository / "a.py").unlink) == Changes(
        (FileChange("a.py", "deleted"),)
    )


async def test_a_repository_that_disappears_in_the_turn_is_no_error(
    repository: Path, tmp_path: Path
) -> None:
    def turn() -> None:
        (repository / "a.py").write_text("x\n")
        (repository / ".git").rename(tmp_path / "away")

    assert await changes(repository, turn) == Changes((FileChange("a.py", "modified"),))


async def test_a_repository_with_too_many_loose_files_is_reported_and_new_files_are_still_listed(
    repository: Path,
) -> None:
    for number in range(20):
        (repository / f"old{number:02}").write_text("x\n")
    _let_the_file_clock_tick()
    before = work_tree_snapshot.capture(repository, Deadline(10), most=10)
    assert before
    (repository / "new").write_text("y\n")
    (repository / "a.py").write_text("one\n")
    (repository / "old01").write_text("x\ny\n")
    assert await changed_since(before) == Changes(
        (
            FileChange("a.py", "modified", 0, 2),
            FileChange("new", "added", 1, 0),
            FileChange("old01", "modified", 1, 0),
        ),
        note="more than 10 files are new or changed against git; "
        "of the others, only new files are detected",
    )


def _picture(folder: Path) -> dict[str, tuple[int, str]]:
    """Every file with its time and content."""
    return {
        str(path.relative_to(folder)): (
            path.lstat().st_mtime_ns,
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder",
        )
        for path in folder.rglob("*")
    }


def _let_the_file_clock_tick() -> None:
    start, until = file_signatures.file_clock(), time.monotonic() + 5
    while file_signatures.file_clock() == start:
        assert time.monotonic() < until
