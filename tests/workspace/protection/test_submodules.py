"""Submodules and work trees of git: what git creates works, anything else there runs nothing."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.workspace.protected_tricks import EVIL, GOOD
from tests.workspace.repositories import Git
from tillerman.workspace.protection.watcher import Undone, Watcher

FILE = "-c protocol.file.allow=always"


@pytest.fixture
async def watch(root: Path, tmp_path: Path) -> AsyncIterator[Watcher]:
    found = Watcher(root, tmp_path / "aside")
    yield found
    await found.close()


@pytest.fixture
def library(repository: Path, git: Git, tmp_path: Path) -> Path:
    """A submodule of `repository` at `lib`, which is not checked out: an empty folder."""
    there = tmp_path / "library"
    (there / ".vscode").mkdir(parents=True)
    (there / ".vscode/tasks.json").write_bytes(GOOD)
    git("init", "-q", cwd=there)
    git("add", "-A", cwd=there)
    git("commit", "-qm", "library", cwd=there)
    git(*FILE.split(), "submodule", "add", "-q", str(there), "sub")
    git("commit", "-qam", "submodule")
    git("submodule", "deinit", "-q", "--all")
    subprocess.run(["rm", "-rf", str(repository / ".git/modules")], check=True)
    return there


async def run(watch: Watcher, root: Path, command: str) -> tuple[Undone, ...]:
    hold = await watch.begin()
    env = {"PATH": os.environ["PATH"], "HOME": str(root.parent)}
    shell = await asyncio.create_subprocess_exec("sh", "-ec", command, cwd=root, env=env)
    assert await shell.wait() == 0
    return await hold.end()


def look_with_git(root: Path) -> None:
    subprocess.run(["git", "status"], cwd=root, capture_output=True, check=False)


async def test_a_submodule_is_checked_out_whole_and_protected_from_then_on(
    repository: Path, git: Git, watch: Watcher, library: Path
) -> None:
    found = await run(watch, repository, f"git {FILE} submodule update -q --init; git status")
    assert {one.why for one in found} <= {"it came with a folder that is new"}
    assert (repository / "sub/.vscode/tasks.json").read_bytes() == GOOD
    assert git("status", "--porcelain") == ""
    assert git("-C", "sub", "config", "core.worktree") == "../../../sub"
    evil = (
        "echo evil > sub/.vscode/tasks.json; git -C sub config core.fsmonitor evil;"
        "echo evil > .git/modules/sub/hooks/post-commit"
    )
    found = await run(watch, repository, evil)
    assert {(one.path, one.restored) for one in found} == {
        ("sub/.vscode/tasks.json", True),
        (".git/modules/sub/config", True),
        (".git/modules/sub/hooks/post-commit", True),
    }
    assert git("-C", "sub", "status", "--porcelain") == ""


MADE = "mkdir -p .git/modules/x/hooks; cp -r .git/HEAD .git/objects .git/refs .git/modules/x;"
CONFIG, HOOK = ".git/modules/x/config", ".git/modules/x/hooks/pre-commit"


def with_setting(line: str) -> str:
    return f"{MADE} printf '[core]\\n\\t{line}\\n' > {CONFIG}"


MADE_BY_HAND = {
    "a program": with_setting("fsmonitor = touch ran"),
    "a hook": f"{MADE} cp .git/config {CONFIG}; echo touch ran > {HOOK}; chmod -f +x {HOOK} || :",
    "files outside": with_setting("worktree = ../../../../.."),
    "files in .git": with_setting("worktree = ../../../.git"),
    "any path": with_setting("worktree = /"),
    "another repository": (
        "mkdir -p .git/worktrees/x evil; echo ../../../evil > .git/worktrees/x/commondir"
    ),
}


@pytest.mark.parametrize("command", MADE_BY_HAND.values(), ids=MADE_BY_HAND)
async def test_a_repository_created_by_hand_in_gits_own_folders_runs_nothing(
    repository: Path, git: Git, watch: Watcher, library: Path, command: str
) -> None:
    """It is where `git status` of the workspace would look for a submodule."""
    use = "mkdir -p sub; echo 'gitdir: ../.git/modules/x' > sub/.git"
    found = await run(watch, repository, f"{command}; {use}")
    assert any(one.restored for one in found), found
    assert not (repository / ".git/worktrees/x/commondir").exists()
    settings = repository / ".git/modules/x/config"
    message = git("config", "-f", str(settings), "--list") if settings.exists() else ""
    assert "core.worktree" not in message and "core.fsmonitor" not in message
    hooks = repository / ".git/modules/x/hooks"
    assert not hooks.exists() or list(hooks.iterdir()) == []
    look_with_git(repository)
    assert not list(repository.rglob("ran"))


async def test_a_link_in_the_place_of_a_submodule_s_folder_is_replaced(
    repository: Path, git: Git, watch: Watcher, library: Path
) -> None:
    await run(watch, repository, f"git {FILE} submodule update -q --init")
    config = (repository / ".git/modules/sub/config").read_bytes()
    evil = "mv .git/modules/sub away; cp -r away evil; ln -s ../../evil .git/modules/sub"
    found = await run(watch, repository, f"{evil}; echo '[core] fsmonitor = evil' > evil/config")
    assert (".git/modules/sub/config", True) in {(one.path, one.restored) for one in found}
    assert not (repository / ".git/modules/sub").is_symlink()
    assert (repository / ".git/modules/sub/config").read_bytes() == config


async def test_a_work_tree_is_added_and_removed(
    repository: Path, git: Git, watch: Watcher, tmp_path: Path
) -> None:
    tree = tmp_path / "tree"
    hold = await watch.begin()
    git("worktree", "add", "-q", str(tree))
    watch.check()
    assert git("status", "--porcelain", cwd=tree) == ""
    git("worktree", "remove", str(tree))
    await hold.end()
    assert git("worktree", "list", "--porcelain").count("worktree ") == 1


@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")
@pytest.mark.parametrize(
    "command",
    [
        "git worktree add -q ../tree",
        "git worktree add -q --detach ../tree; git worktree remove ../tree",
        f"git {FILE} submodule update -q --init",
        "git init -q inside",
        f"git {FILE} clone -q ../library inside",
        "git remote add origin ../library; git fetch -q; git remote rename origin other",
        "git switch -q -C work; git config user.name Ann; git branch --set-upstream-to=main",
    ],
)
async def test_git_works_although_each_of_its_steps_is_seen(
    repository: Path, git: Git, watch: Watcher, library: Path, command: str
) -> None:
    calls = "write,mkdir,rename,link,symlink"
    slow = f"strace -f -qq -o /dev/null -e trace={calls} -e inject={calls}:delay_enter=20000"
    found = await run(watch, repository, f"{slow} sh -ec '{command}'")
    assert [one for one in found if one.restored] == []
    git("fsck", "--strict")


async def test_a_link_of_a_work_tree_that_stays_empty_is_removed(
    repository: Path, watch: Watcher
) -> None:
    work = ".git/worktrees/x"
    made = f"mkdir -p {work}; echo ref: refs/heads/main > {work}/HEAD; : > {work}/commondir"
    assert [one.path for one in await run(watch, repository, made)] == [f"{work}/commondir"]
    assert not (repository / work / "commondir").exists()


async def test_a_folder_that_was_empty_counts_as_new(root: Path, watch: Watcher) -> None:
    (root / "empty").mkdir()
    found = await run(watch, root, "echo one > empty/.env; mkdir empty/.vscode")
    assert {(one.path, one.restored, one.why) for one in found} == {
        ("empty/.env", False, "it came with a folder that is new"),
        ("empty/.vscode", False, "it came with a folder that is new"),
    }
    found = await run(watch, root, f"echo '{EVIL.decode()}' > empty/.env")
    assert [(one.path, one.restored) for one in found] == [("empty/.env", True)]
    assert (root / "empty/.env").read_text() == "one\n"
