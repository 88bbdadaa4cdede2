"""A listing shows existing files, without those that git ignores."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tillerman.supervision.secrets import Secrets
from tillerman.workspace.files.access.confined_root import ConfinedRoot
from tillerman.workspace.files.access.walk import DirectoryWalk
from tillerman.workspace.files.file_names import shown
from tillerman.workspace.files.file_tools import Files
from tillerman.workspace.files.gitignore import is_ignored, parse
from tillerman.workspace.files.listing import DirectoryEntry, list_directory
from tillerman.workspace.files.refusal import Refused
from tillerman.workspace.tools import tool_schemas
from tillerman.workspace.tools.file_calls import run_at_once, run_file_call

Git = Callable[..., str]


def listed(root: Path, path: str = ".", depth: int = 1, **how: bool | int) -> list[str]:
    with ConfinedRoot(root) as confined:
        return [entry.path for entry in list_directory(confined, path, depth, **how).entries]  # type: ignore[arg-type]


def test_entries_have_their_kind(root: Path) -> None:
    (root / "folder").mkdir()
    (root / "file").write_text("12345")
    (root / "run").write_text("x")
    (root / "run").chmod(0o755)
    (root / "link").symlink_to("/etc/passwd")
    os.mkfifo(root / "pipe")
    with ConfinedRoot(root) as confined:
        listing = list_directory(confined, sizes=True)
        names = list_directory(confined)
    assert [(one.path, one.kind, one.target) for one in names.entries] == [
        (one.path, one.kind, one.target) for one in listing.entries
    ]
    assert {(one.size, one.executable) for one in names.entries} == {(None, False)}
    assert listing.entries == (
        DirectoryEntry("file", "file", 5),
        DirectoryEntry("folder", "folder"),
        DirectoryEntry("link", "link", target="/etc/passwd"),
        DirectoryEntry("pipe", "other"),
        DirectoryEntry("run", "file", 1, executable=True),
    )
    assert listing.notes == ()


def test_a_link_to_a_folder_is_not_entered(root: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("x")
    (root / "out").symlink_to(tmp_path / "outside")
    (root / "around").symlink_to(".")
    assert listed(root, depth=9) == ["around", "out"]
    with pytest.raises(Refused):
        listed(root, "out")


def test_depth_and_limit_are_applied_and_reported(root: Path) -> None:
    (root / "a" / "b" / "c").mkdir(parents=True)
    for at in range(9):
        (root / "a" / f"{at}").write_text("")
    assert listed(root, depth=2)[-1] == "a/b" and listed(root, depth=3)[-1] == "a/b/c"
    with ConfinedRoot(root) as confined:
        listing = list_directory(confined, "a", limit=3)
        assert [entry.path for entry in listing.entries] == ["a/0", "a/1", "a/2"]
        assert "more than 3" in listing.notes[0]
        for depth, limit in ((0, 5), (5, 0), (1, 10**6)):
            with pytest.raises(Refused):
                list_directory(confined, ".", depth, limit=limit)


def test_what_git_ignores_is_counted_and_left_out(repository: Path) -> None:
    (repository / "x.log").write_text("")
    (repository / "build").mkdir()
    (repository / "build" / "x").write_text("")
    assert listed(repository, depth=2) == [".gitignore", "a.py", "lib", "lib/b.py"]
    assert "build/x" in listed(repository, depth=2, ignored=True)
    assert listed(repository, "build") == ["build/x"]  # who asks for it gets it
    with ConfinedRoot(repository) as confined:
        assert list_directory(confined).notes == ("3 left out: ignored",)


def test_rules_of_folders_above_apply(repository: Path) -> None:
    (repository / "lib" / "x.log").write_text("")
    (repository / ".git" / "info").mkdir(exist_ok=True)
    (repository / ".git" / "info" / "exclude").write_text("b.*\n")
    assert listed(repository, "lib") == []


def test_a_pattern_cannot_take_long() -> None:
    stars = parse(b"*a" * 60 + b"*b\n" + b"**/x/" * 60 + b"y\n" + b"[" * 5_000 + b"\n", 0)
    assert not is_ignored([stars], ["a" * 255], folder=False)
    assert not is_ignored([stars], ["x"] * 200, folder=False)


NAMES = (
    "a",
    "b",
    "ab",
    "a.b",
    "abc",
    "A",
    "é",
    "x y",
    "a ",
    "!a",
    "#a",
    "a-b",
    "[a]",
    "a\\b",
    "-",
    "]",
)
PIECES = (
    *("a", "b", "c", "*", "**", "?", "[ab]", "[!a]", "[^b]", "[a-c]", "[]a]", "[[:alpha:]]", "/"),
    *("/", "/", "**/", "/**", "/**/", "\\", "\\*", " ", "!", "#", ".", "[", "]", "-", "[z-a]"),
    *("[a-]", "[\\]]", "[[:nope:]]", "[!]a]", "é", "\\ ", "\r"),
)


def test_git_agrees(root: Path, git: Git) -> None:
    """Random patterns on a tree, with nested ignore files. Left out is what git reads in
    undocumented ways: two stars next to a name before a slash, a slash in brackets, and empty
    names."""
    git("init", "--quiet")
    for first in NAMES:
        (root / first).mkdir()
        (root / first / "in").mkdir()
        for second in NAMES:
            (root / first / second).write_text("")
            (root / first / "in" / second).write_text("")
    chance = random.Random(5)
    for turn in range(20):
        for where in (root, root / "a", root / "ab" / "in"):
            lines = ["".join(chance.choices(PIECES, k=chance.randint(1, 4))) for _ in range(4)]
            lines = [line for line in lines if not re.search(r"[^/]\*\*+/|//|\[[^]]*/", line)]
            lines = [f"!{line}" if chance.random() < 0.25 else line for line in lines]
            (where / ".gitignore").write_bytes("\n".join(lines).encode())
        theirs = git("ls-files", "--others", "--exclude-standard", "-z").split("\0")
        with ConfinedRoot(root) as confined:
            ours = [found.path for found in DirectoryWalk(confined, ".") if found.kind == "file"]
        assert sorted(ours) == sorted(theirs[:-1]), (turn, (root / ".gitignore").read_bytes())


def test_a_listing_with_many_rules_runs_in_a_thread_and_is_complete_there(root: Path) -> None:
    for at in range(300):
        (root / f"note-{at:03d}").write_text("")
    with ConfinedRoot(root) as confined:
        files = Files(confined, root.parent / "exports", Secrets())
        call = tool_schemas.ListDirectory(limit=1000)
        at_once = run_at_once(files, call)
        assert at_once is None or at_once == run_file_call(files, call)
        (root / ".gitignore").write_text("".join(f"x{at}/**/y*\n*.z{at}\n" for at in range(1000)))
        assert run_at_once(files, call) is None
        reported = run_file_call(files, call)
        assert len(reported.data["files"]) == 301 and not reported.data["notes"]
        assert run_at_once(files, tool_schemas.ListDirectory(depth=2)) is None
        assert run_at_once(files, tool_schemas.ListDirectory(sizes=True)) is None


def test_a_folder_listed_at_once_is_as_if_it_were_walked(root: Path) -> None:
    """Random folders: links, pipes, names that are not UTF-8, rules, and each limit."""
    pick = random.Random(14)
    names = [*(os.fsencode(name) for name in NAMES), b"\xff", b".git", b".tillerman-draft-1", b"z"]
    for number in range(40):
        folder = root / f"folder{number}"
        folder.mkdir()
        for name in pick.sample(names, pick.randint(0, len(names))):
            path = folder / os.fsdecode(name)
            pick.choice((Path.mkdir, os.mkfifo, Path.touch, Path.touch, _link))(path)
        if pick.random() < 0.5:
            (folder / ".gitignore").write_text(pick.choice(("a*\n", "*\n!b\n", "\n")))
        for ignored, limit in ((False, 50), (True, 50), (pick.random() < 0.5, pick.randint(1, 9))):
            with ConfinedRoot(root) as confined:
                flat = list_directory(confined, folder.name, 1, ignored, limit)
                walk = DirectoryWalk(confined, folder.name, depth=1, ignored=ignored)
                walked = [
                    (shown(one.path), one.kind, shown(one.target()) if one.kind == "link" else "")
                    for one, _ in zip(walk, range(limit), strict=False)
                ]
                whole = DirectoryWalk(confined, folder.name, depth=1, ignored=ignored)
                count = sum(1 for _ in whole)
            assert [(one.path, one.kind, one.target) for one in flat.entries] == walked
            assert any("more than" in note for note in flat.notes) == (count > limit)
            if count <= limit:
                left_out = whole.left_out["ignored"]
                assert (f"{left_out} left out: ignored" in flat.notes) == (left_out > 0)


def _link(path: Path) -> None:
    path.symlink_to(os.fsdecode(b"somewhere\xff"))
