"""Commands of a real shell that write to protected names, and what is restored."""

from __future__ import annotations

import asyncio
import marshal
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.workspace.protected_tricks import (
    EVIL,
    GOOD,
    SOME,
    Case,
    cases,
    guarded,
    without_empty_configs,
)
from tillerman.core.errors import IsolationUnavailable
from tillerman.supervision.isolation import after, confine
from tillerman.supervision.protocol.launch_warden import command
from tillerman.workspace.files import inotify
from tillerman.workspace.protection import (
    checker,
    known_state,
    mark_comparison,
    protected_names,
    watch_loop,
    watcher,
)
from tillerman.workspace.protection.early_scan import early_scans
from tillerman.workspace.protection.restore import quarantine as quarantines
from tillerman.workspace.protection.watcher import Undone, Watcher

Git = Callable[..., str]


@pytest.fixture
def aside(tmp_path: Path) -> Path:
    return tmp_path / "aside"


@pytest.fixture
async def watch(root: Path, aside: Path) -> AsyncIterator[Watcher]:
    found = Watcher(root, aside)
    yield found
    await found.close()


async def run(watch: Watcher, root: Path, command: str) -> tuple[Undone, ...]:
    hold = await watch.begin()
    shell = await asyncio.create_subprocess_exec("sh", "-c", command, cwd=root)
    await shell.wait()
    return await hold.end()


async def until(condition: Callable[[], object]) -> None:
    for _ in range(500):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not come to pass in 5 s")


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    for name in ("settings.json", "config"):
        (folder / name).write_bytes(b"of somebody else")
    return folder


@pytest.mark.parametrize("case", cases(SOME), ids=str)
async def test_changes_by_a_command_are_restored(
    case: Case, tmp_path: Path, aside: Path, outside: Path
) -> None:
    root = tmp_path / "workspace"
    case.prepare(root)
    before, elsewhere = guarded(root), sorted(outside.iterdir())
    watch = Watcher(root, aside)
    try:
        found = await run(watch, root, case.command(root, outside))
    finally:
        await watch.close()
    assert without_empty_configs(guarded(root)) == without_empty_configs(before)
    assert all(one.restored for one in found)
    assert bool(found) or case.trick in ("second name", "mode", "hard link out")
    assert sorted(outside.iterdir()) == elsewhere
    assert all(path.read_bytes() == b"of somebody else" for path in elsewhere)
    if case.trick in ("rename over", "case variant", "Unicode variant") and case.is_file:
        assert any(path.read_bytes().strip() == EVIL for path in files_in(aside))


def files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize("name", [".mcp.json", ".claude", ".git/hooks"])
async def test_changes_by_a_command_are_restored_while_it_runs(
    name: str, tmp_path: Path, aside: Path, outside: Path
) -> None:
    case = Case(name, "rename over", True)
    root = tmp_path / "workspace"
    case.prepare(root)
    before = guarded(root)
    reported: list[Undone] = []
    watch = Watcher(root, aside, report=reported.extend)
    hold = await watch.begin()
    command = f"{case.command(root, outside)}; touch did; cat"
    shell = await asyncio.create_subprocess_exec(
        "sh", "-c", command, cwd=root, stdin=subprocess.PIPE
    )
    assert shell.stdin
    try:
        await until((root / "did").exists)
        await until(lambda: guarded(root) == before and reported)
    finally:
        shell.stdin.close()
        await shell.wait()
        assert await hold.end() == tuple(reported)
        await watch.close()


async def test_a_persistent_writer_loses_when_it_ends(
    root: Path, watch: Watcher, aside: Path
) -> None:
    (root / ".mcp.json").write_bytes(GOOD)
    fight = "i=0; while [ $i -lt 3000 ]; do echo evil > .mcp.json; i=$((i+1)); done"
    await run(watch, root, f"{fight}; {fight} & {fight}; wait")
    assert (root / ".mcp.json").read_bytes() == GOOD
    assert len(list(aside.iterdir())) <= quarantines.MOST_ENTRIES


async def test_without_commands_nothing_is_restored_and_a_change_ends_the_watch(
    root: Path, watch: Watcher
) -> None:
    assert await run(watch, root, "true") == ()
    (root / ".env").write_text("the user's own\n")
    await until(lambda: asyncio.all_tasks() == {asyncio.current_task()})
    assert await run(watch, root, "true") == ()
    assert (root / ".env").read_text() == "the user's own\n"


async def test_without_commands_nothing_is_scanned_until_an_event(
    root: Path, watch: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await run(watch, root, "true") == ()
    await until(watch._loop.is_quiet)
    looks = []
    real = protected_names.scan
    monkeypatch.setattr(known_state, "scan", lambda *a, **b: looks.append(1) or real(*a, **b))
    await asyncio.sleep(2 * watch_loop.PAUSE)
    assert looks == []


async def test_a_watch_that_no_command_follows_ends_with_its_saved_state(
    root: Path, aside: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watcher, "IDLE", 0.05)
    saved = tmp_path / "saved"
    watch = Watcher(root, aside, saved=saved)
    assert await run(watch, root, "true") == ()
    await until(lambda: asyncio.all_tasks() == {asyncio.current_task()} and not saved.exists())
    await watch.close()


async def test_a_second_command_finds_the_watch_running_and_is_restored_by_it(
    root: Path, watch: Watcher
) -> None:
    (root / ".mcp.json").write_bytes(GOOD)
    assert await run(watch, root, "true") == ()
    await until(watch._loop.is_quiet)
    armed = watch._task
    hold = await watch.begin()
    assert watch._task is armed
    shell = await asyncio.create_subprocess_exec(
        "sh", "-c", "echo evil > .mcp.json; exec sleep 60", cwd=root
    )
    try:
        await until(lambda: hold.found)
        assert (root / ".mcp.json").read_bytes() == GOOD
    finally:
        shell.kill()
        await shell.wait()
        await hold.end()


@pytest.mark.parametrize("name", [".mcp.json", ".env", ".vscode/settings.json", ".claude/x.json"])
@pytest.mark.parametrize("change", ["write", "replace", "remove", "create", "touch"])
async def test_what_the_user_changes_between_two_commands_stays(
    root: Path, watch: Watcher, name: str, change: str
) -> None:
    path = root / name
    path.parent.mkdir(exist_ok=True)
    if change != "create":
        path.write_bytes(GOOD)
    assert await run(watch, root, "true") == ()
    match change:
        case "write" | "create":
            path.write_bytes(b"the user's own")
        case "replace":
            (root / "new").write_bytes(b"the user's own")
            (root / "new").rename(path)
        case "remove":
            path.unlink()
        case "touch":
            path.touch()
    wanted = path.read_bytes() if path.exists() else None
    assert await run(watch, root, "true") == ()
    assert (path.read_bytes() if path.exists() else None) == wanted


async def test_a_quiet_command_costs_no_scans_while_it_runs(
    root: Path, watch: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / ".env").write_bytes(GOOD)
    looks: list[int] = []
    real = protected_names.scan
    hold = await watch.begin()
    shell = await asyncio.create_subprocess_exec("cat", cwd=root, stdin=subprocess.PIPE)
    assert shell.stdin
    await asyncio.sleep(3 * watch_loop.PAUSE)  # the alarm is set
    monkeypatch.setattr(known_state, "scan", lambda *a, **b: looks.append(1) or real(*a, **b))
    (root / "work.py").write_text("pass\n")
    await asyncio.sleep(3 * watch_loop.PAUSE)
    assert looks == []
    shell.stdin.close()
    await shell.wait()
    assert await hold.end() == ()


async def test_without_inotify_it_polls(
    root: Path, aside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A system without free watches."""

    def none_left(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(inotify.Inotify, "add", none_left)
    monkeypatch.setattr(watch_loop, "WITHOUT_INOTIFY", 0.05)
    watch = Watcher(root, aside)
    hold = await watch.begin()
    await asyncio.sleep(2 * watch_loop.PAUSE)
    (root / ".mcp.json").write_bytes(EVIL)
    await until(lambda: not (root / ".mcp.json").exists())
    assert [one.act for one in await hold.end()] == ["created"]
    await watch.close()


async def test_a_system_without_inotify_is_watched_too(
    root: Path, aside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(self: inotify.Inotify) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(inotify.Inotify, "__init__", none_left)
    watch = Watcher(root, aside)
    hold = await watch.begin()
    await asyncio.sleep(2 * watch_loop.PAUSE)
    (root / ".mcp.json").write_bytes(EVIL)
    await until(lambda: not (root / ".mcp.json").exists())
    await hold.end()
    await watch.close()


async def test_two_commands_at_once_get_the_same_report(root: Path, watch: Watcher) -> None:
    (root / ".mcp.json").write_bytes(GOOD)
    first = await watch.begin()
    second = await watch.begin()
    (root / ".mcp.json").write_bytes(EVIL)
    found = await first.end()
    assert [one.path for one in found] == [".mcp.json"]
    (root / ".env").write_bytes(EVIL)
    assert [one.path for one in await second.end()] == [".mcp.json", ".env"]
    assert await first.end() == found
    assert (root / ".mcp.json").read_bytes() == GOOD


async def test_what_the_user_changed_between_commands_stays(root: Path, watch: Watcher) -> None:
    (root / ".env").write_bytes(b"old")
    assert await run(watch, root, "true") == ()
    (root / ".env").write_bytes(b"new")
    (root / ".mcp.json").write_bytes(b"{}")
    assert await run(watch, root, "true") == ()
    assert ((root / ".env").read_bytes(), (root / ".mcp.json").read_bytes()) == (b"new", b"{}")


async def test_what_the_harness_accepts_stays(root: Path, watch: Watcher) -> None:
    hold = await watch.begin()
    (root / ".cursor").mkdir()
    (root / ".cursor" / "hooks.json").write_bytes(b"{}")
    watch.accept()
    assert await hold.end() == ()
    assert (root / ".cursor" / "hooks.json").exists()


async def test_what_the_policy_allows_commands_to_write_stays(root: Path, aside: Path) -> None:
    watch = Watcher(root, aside, allowed=lambda path: path == ".env")
    assert await run(watch, root, "echo a > .env; echo b > .envrc") == (
        Undone(".envrc", "created", quarantined=str(only(aside, "content"))),
    )
    assert (root / ".env").read_text() == "a\n"
    assert await run(watch, root, "rm .env") == ()
    assert not (root / ".env").exists()
    await watch.close()


def only(folder: Path, name: str) -> Path:
    (found,) = folder.rglob(name)
    return found


async def test_git_keeps_working_and_its_config_is_restored(
    repository: Path, git: Git, watch: Watcher
) -> None:
    before = (repository / ".git/config").read_bytes()
    commit = "git -c user.name=T -c user.email=t@example.org commit -qam more"
    found = await run(watch, repository, f"echo x >> a.py; {commit}; git checkout -qb other")
    assert found == ()
    assert git("log", "--format=%s", "-1") == "more"
    found = await run(watch, repository, "git remote add evil ext::sh; git config core.pager sh")
    assert {(one.path, one.act, one.restored) for one in found} == {
        (".git/config", "changed", True)
    }
    assert (repository / ".git/config").read_bytes().startswith(before)
    assert {key for one in found for key in one.settings} == {"remote.evil.url", "core.pager"}
    assert "It names programs that git runs" in found[0].text
    assert f"`tillerman protected take-back {found[0].id}` reapplies the change" in found[0].text
    assert "ext::" not in git("config", "--list", "--local")
    assert git("branch", "--show-current") == "other"


async def test_a_repository_that_was_moved_away_comes_back_whole(
    repository: Path, git: Git, watch: Watcher
) -> None:
    head = git("rev-parse", "HEAD")
    found = await run(watch, repository, "mv .git lib/away; git init -q; touch .git/hooks/evil")
    assert (".git", "moved", True) in {(one.path, one.act, one.restored) for one in found}
    assert {one.path for one in found} <= {".git", ".git/hooks/evil", ".git/hooks", ".git/config"}
    assert git("rev-parse", "HEAD") == head
    assert git("status", "--porcelain") == ""
    assert not (repository / ".git/hooks/evil").exists()


async def test_of_a_removed_repository_the_files_that_name_commands_are_restored(
    repository: Path, watch: Watcher
) -> None:
    config = (repository / ".git/config").read_bytes()
    found = await run(watch, repository, "rm -rf .git")
    assert {(one.path, one.act, one.restored) for one in found} == {
        (".git/config", "deleted", True),
        (".git/hooks", "deleted", True),
    }
    assert (repository / ".git/config").read_bytes() == config


@pytest.mark.parametrize("make", ["git init -q lib/new", "git clone -q . lib/new"])
@pytest.mark.parametrize("remove", ["rm -rf lib/new", "rm -rf lib/new/.git"])
@pytest.mark.parametrize("when", ["at once", "while it is watched", "by a later command"])
async def test_a_repository_that_a_command_made_may_be_removed(
    repository: Path, watch: Watcher, make: str, remove: str, when: str
) -> None:
    """Also with its settings, which are protected from its creation on."""
    if when == "by a later command":
        await run(watch, repository, make)
        await run(watch, repository, ": > lib/new/.git/hooks/post-merge")
        await run(watch, repository, f"{remove} 2> errors; echo $? > code")
    else:
        pause = "sleep 0.4;" if when == "while it is watched" else ""
        await run(watch, repository, f"{make}; {pause} {remove} 2> errors; echo $? > code")
    assert (repository / "errors").read_text() == ""
    assert (repository / "code").read_text() == "0\n"
    assert not (repository / "lib/new/.git").exists()


async def test_files_that_name_commands_are_restored_after_the_whole_repository_was_removed(
    repository: Path, watch: Watcher
) -> None:
    """The first check finds no `.git` at all: nothing can be written into the open one."""
    config = (repository / ".git/config").read_bytes()
    (repository / ".mcp.json").write_bytes(GOOD)
    hold = await watch.begin()
    shutil.rmtree(repository / ".git")
    (repository / ".mcp.json").unlink()
    assert {(one.path, one.act, one.restored) for one in await hold.end()} == {
        (".git/config", "deleted", True),
        (".git/hooks", "deleted", True),
        (".mcp.json", "deleted", True),
    }
    assert (repository / ".git/config").read_bytes() == config
    assert (repository / ".mcp.json").read_bytes() == GOOD


async def test_a_new_repository_works_and_names_no_program(
    root: Path, git: Git, watch: Watcher
) -> None:
    found = await run(watch, root, "git init -q; git config user.name Ann")
    assert (found, git("config", "--local", "user.name")) == ((), "Ann")
    found = await run(watch, root, "git config core.hooksPath evil; touch .git/hooks/pre-commit")
    assert {one.path for one in found} == {".git/config", ".git/hooks/pre-commit"}
    assert all(one.restored for one in found)
    assert git("config", "--local", "user.name") == "Ann"
    (root / "a").write_text("a")
    git("add", "a")
    git("commit", "-qm", "first")
    assert git("log", "--format=%s") == "first"


async def test_a_clone_is_left_complete_and_reported(
    repository: Path, root: Path, git: Git, watch: Watcher
) -> None:
    (repository / ".vscode").mkdir()
    (repository / ".vscode/tasks.json").write_text("{}")
    git("add", "-A")
    git("commit", "-qm", "tasks")
    found = await run(watch, root, "git clone -q . vendor/copy")
    assert {one.path: one.restored for one in found} == {
        "vendor/copy/.vscode": False,
        "vendor/copy/.git/config": False,
        "vendor/copy/.git/hooks": False,
    }
    assert "a folder that is new" in found[0].text
    assert (root / "vendor/copy/.vscode/tasks.json").exists()
    found = await run(watch, root, "echo evil > vendor/copy/.vscode/tasks.json")
    assert [(one.path, one.restored) for one in found] == [("vendor/copy/.vscode/tasks.json", True)]


async def test_names_in_folders_below_are_guarded_too(root: Path, watch: Watcher) -> None:
    (root / "packages/app/.claude").mkdir(parents=True)
    (root / "packages/app/.claude/settings.json").write_bytes(GOOD)
    (root / "node_modules/thing").mkdir(parents=True)
    evil = "echo evil > packages/app/.claude/settings.json; echo evil > packages/.env"
    found = await run(watch, root, f"{evil}; echo fine > node_modules/thing/.env")
    assert {(one.path, one.act) for one in found} == {
        ("packages/.env", "created"),
        ("packages/app/.claude/settings.json", "changed"),
    }
    assert (root / "packages/app/.claude/settings.json").read_bytes() == GOOD
    assert (root / "node_modules/thing/.env").exists()


async def test_a_folder_that_is_moved_takes_its_names_with_it(root: Path, watch: Watcher) -> None:
    (root / "old").mkdir()
    (root / "old/.env").write_bytes(GOOD)
    found = await run(watch, root, "mv old new")
    assert {(one.path, one.restored) for one in found} == {("old/.env", False), ("new/.env", False)}
    assert (root / "new/.env").read_bytes() == GOOD
    assert not (root / "old").exists()


async def test_a_link_swapped_in_for_a_folder_leads_nowhere(
    root: Path, watch: Watcher, outside: Path
) -> None:
    (root / "pkg/.claude").mkdir(parents=True)
    (root / "pkg/.claude/settings.json").write_bytes(GOOD)
    (outside / ".claude").mkdir()
    (outside / ".claude/settings.json").write_bytes(b"of somebody else")
    await run(watch, root, f"mv pkg was; ln -s {outside} pkg")
    assert (outside / ".claude/settings.json").read_bytes() == b"of somebody else"
    assert sorted(path.name for path in (outside / ".claude").iterdir()) == ["settings.json"]


async def test_what_a_protected_link_leads_to_is_guarded(root: Path, watch: Watcher) -> None:
    (root / "tools/claude").mkdir(parents=True)
    (root / "tools/claude/settings.json").write_bytes(GOOD)
    (root / ".claude").symlink_to("tools/claude")
    found = await run(watch, root, "echo evil > .claude/settings.json; echo e > tools/claude/new")
    assert {(one.path, one.act) for one in found} == {
        ("tools/claude/new", "created"),
        ("tools/claude/settings.json", "changed"),
    }
    assert (root / ".claude/settings.json").read_bytes() == GOOD


async def test_files_that_instruct_agents_are_left_and_reported(root: Path, watch: Watcher) -> None:
    (root / "AGENTS.md").write_text("be good\n")
    found = await run(watch, root, "echo evil >> AGENTS.md; echo evil > Claude.md")
    assert [(one.path, one.act, one.restored) for one in found] == [
        ("AGENTS.md", "changed", False),
        ("Claude.md", "created", False),
    ]
    assert (root / "AGENTS.md").read_text() == "be good\nevil\n"
    assert await run(watch, root, "true") == ()


async def test_a_second_name_for_a_file_gives_no_later_access(root: Path, watch: Watcher) -> None:
    (root / ".mcp.json").write_bytes(GOOD)
    await run(watch, root, "ln .mcp.json x")
    assert (root / ".mcp.json").stat().st_nlink == 1
    (root / "x").write_bytes(EVIL)
    assert (root / ".mcp.json").read_bytes() == GOOD


async def test_a_change_within_one_tick_of_the_clock_is_seen(root: Path, watch: Watcher) -> None:
    """Of the same length, in the same file, with its time reset."""
    for turn in range(20):
        (root / ".mcp.json").write_bytes(b"%02d good" % turn)
        hold = await watch.begin()
        status = (root / ".mcp.json").stat()
        with (root / ".mcp.json").open("r+b") as file:
            file.write(b"%02d evil" % turn)
        os.utime(root / ".mcp.json", ns=(status.st_atime_ns, status.st_mtime_ns))
        assert [one.act for one in await hold.end()] == ["changed"]
        assert (root / ".mcp.json").read_bytes() == b"%02d good" % turn


async def test_a_flood_in_a_protected_folder_is_handled_as_one(
    root: Path, watch: Watcher, aside: Path
) -> None:
    (root / ".claude").mkdir()
    (root / ".claude/settings.json").write_bytes(GOOD)
    flood = "i=0; while [ $i -lt 500 ]; do : > .claude/$i; i=$((i+1)); done"
    found = await run(watch, root, flood)
    assert {one.path.split("/")[0] for one in found} == {".claude"}
    assert [path.name for path in (root / ".claude").iterdir()] == ["settings.json"]
    assert (root / ".claude/settings.json").read_bytes() == GOOD
    assert len(list(aside.iterdir())) <= quarantines.MOST_ENTRIES


async def test_a_flood_of_protected_names_is_restored(
    root: Path, watch: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checker, "_AT_ONCE", 100)
    await run(watch, root, "i=0; while [ $i -lt 250 ]; do : > .env$i; i=$((i+1)); done")
    assert list(root.iterdir()) == []


async def test_new_folders_do_not_push_out_those_that_are_guarded(
    root: Path, watch: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protected_names, "MOST_FOLDERS", 20)
    (root / "pkg").mkdir()
    (root / "pkg/.env").write_bytes(GOOD)
    await run(watch, root, "for i in 1 2 3 4 5 6 7 8 9; do mkdir -p a$i/b a$i/c; done")
    found = await run(watch, root, "echo evil > pkg/.env")
    assert [one.path for one in found] == ["pkg/.env"]


async def test_a_folder_that_was_seen_while_a_command_ran_is_taken_in_at_its_end(
    root: Path, watch: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mark_comparison, "_OLD_AFTER", -(10**18))  # it went on for long after that
    await run(watch, root, "true")
    hold = await watch.begin()
    (root / "late").mkdir()
    (root / "late/.env").write_bytes(GOOD)
    assert watch.check() == ()
    assert [one.path for one in await hold.end()] == ["late/.env"]
    found = await run(watch, root, "echo evil > late/.env")
    assert [one.path for one in found] == ["late/.env"]
    assert (root / "late/.env").read_bytes() == GOOD


async def test_a_large_folder_with_a_protected_name_is_left_unchanged(
    root: Path, watch: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A virtual environment that is called `.env`."""
    monkeypatch.setattr(protected_names, "MOST_IN_ONE", 200)
    deep = root / ".env" / "lib"
    deep.mkdir(parents=True)
    for number in range(protected_names.MOST_IN_ONE + 100):
        (deep / f"{number}.py").touch()
    (root / ".env" / "config").write_bytes(GOOD)
    assert await run(watch, root, "true") == ()
    found = await run(watch, root, "echo more > .env/lib/new.py; echo evil > .env/config")
    assert [one.path for one in found] == [".env/config"]
    assert (deep / "new.py").exists()


async def test_a_name_too_large_to_copy_is_reported(
    root: Path, watch: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protected_names, "KEPT_FILE", 10)
    (root / ".env").write_bytes(b"x" * 11)
    found = await run(watch, root, "echo evil > .env")
    seen = {(one.path, one.restored) for one in found}  # twice, if seen emptied and then written
    assert seen == {(".env", False)}
    assert all("too large" in one.text for one in found)


async def test_a_sandbox_cannot_keep_a_name_that_it_makes(root: Path, watch: Watcher) -> None:
    try:
        confined = confine(
            "high",
            workspace=root,
            argv=["sh", "-c", "echo evil > .env; mkdir .claude; touch tried"],
            env={"PATH": os.environ["PATH"]},
            cwd=root,
            protected=[root / ".env", root / ".claude"],
        )
    except IsolationUnavailable as error:
        pytest.skip(str(error))
    hold = await watch.begin()
    shell = await asyncio.create_subprocess_exec(
        *command("isolation.exec_confined"), stdin=subprocess.PIPE
    )
    assert shell.stdin
    shell.stdin.write(marshal.dumps((confined.argv, confined.env, str(root), confined.rules)))
    shell.stdin.close()
    assert await shell.wait() == 0
    after(confined)
    # an empty folder may be removed with the sandbox's own mount points before it is seen
    assert {".env"} <= {one.path for one in await hold.end()} <= {".env", ".claude"}
    assert {path.name for path in root.iterdir()} == {"tried"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write what nobody may")
async def test_a_folder_without_write_permission_is_moved_all_the_same(
    root: Path, watch: Watcher
) -> None:
    found = await run(watch, root, "mkdir .claude; echo evil > .claude/x; chmod 555 .claude")
    assert [(one.path, one.restored) for one in found] == [(".claude", True)]
    assert not (root / ".claude").exists()


async def test_removed_files_go_to_another_file_system_as_a_copy(root: Path) -> None:
    folders = [Path("/dev/shm"), Path("/var/tmp"), Path.cwd()]
    others = [one for one in folders if one.is_dir() and one.stat().st_dev != root.stat().st_dev]
    if not others:
        pytest.skip("there is no other file system to write on")
    there = others[0] / f".tillerman-aside-{os.getpid()}"
    watch = Watcher(root, there)
    (root / ".env").write_bytes(GOOD)
    make = (
        "mkdir -p .claude/a; echo evil > .claude/a/b; ln -s /etc/passwd .claude/l; mkfifo .claude/f"
    )
    try:
        beside = f"d=$(mktemp -d -p ..); cd $d; {make}; cd -"  # moved in one step from there
        found = await run(watch, root, f"{beside}; mv $d/.claude .; echo evil > .env")
        assert sorted(one.path for one in found) == [".claude", ".env"]
        assert [path.name for path in root.iterdir()] == [".env"]
        stored = {one.path: Path(one.quarantined) for one in found}
        assert (stored[".claude"] / "a/b").read_text() == "evil\n"
        assert (stored[".claude"] / "l").is_symlink()
        assert not (stored[".claude"] / "f").exists()
        assert stored[".env"].read_text() == "evil\n"
    finally:
        await watch.close()
        shutil.rmtree(there)


async def test_a_returning_harness_restores_changes_made_meanwhile(
    root: Path, aside: Path, tmp_path: Path
) -> None:
    (root / ".mcp.json").write_bytes(GOOD)
    saved = tmp_path / "state" / "protected"
    first = Watcher(root, aside, saved=saved)
    await first.begin()
    await first.close()  # its programs go on
    (root / ".mcp.json").write_bytes(EVIL)
    (root / ".env").write_bytes(EVIL)
    second = Watcher(root, aside, saved=saved)
    assert second.resume()
    hold = await second.begin()
    assert {(one.path, one.act) for one in await hold.end()} <= {
        (".mcp.json", "changed"),
        (".env", "created"),
    }
    assert ((root / ".mcp.json").read_bytes(), (root / ".env").exists()) == (GOOD, False)
    await second.close()
    assert not saved.exists()  # nothing runs any more


async def test_two_sessions_in_one_folder_do_not_undo_each_other(
    root: Path, aside: Path, tmp_path: Path
) -> None:
    """The second started while malicious content was there, and takes over what the first
    restores."""
    (root / ".mcp.json").write_bytes(GOOD)
    known = tmp_path / "accepted"
    first = Watcher(root, aside / "first", accepted=known)
    second = Watcher(root, aside / "second", accepted=known)
    one = await first.begin()
    (root / ".mcp.json").write_bytes(EVIL)
    other = await second.begin()
    await until(lambda: (root / ".mcp.json").read_bytes() == GOOD)
    await asyncio.sleep(0.5)
    assert (root / ".mcp.json").read_bytes() == GOOD
    count = len(list(aside.rglob("item.json")))
    await asyncio.sleep(0.5)
    assert len(list(aside.rglob("item.json"))) == count
    for hold in (one, other):
        await hold.end()
    assert (root / ".mcp.json").read_bytes() == GOOD
    await first.close()
    await second.close()


async def test_an_empty_mount_point_of_a_sandbox_is_left_for_a_moment(
    root: Path, watch: Watcher
) -> None:
    hold = await watch.begin()
    await asyncio.sleep(0.1)
    (root / ".codex").mkdir()
    (root / ".agents").touch()
    await asyncio.sleep(0.2)
    assert (root / ".codex").exists() and (root / ".agents").exists()
    await until(lambda: not (root / ".codex").exists() and not (root / ".agents").exists())
    (root / ".codex").mkdir()
    (root / ".codex/config.toml").write_bytes(EVIL)
    await until(lambda: not (root / ".codex").exists())
    (root / ".agents").touch()
    await hold.end()
    assert not (root / ".agents").exists()


async def test_what_a_program_changes_before_its_session_is_ready_is_undone_or_reported(
    root: Path, aside: Path
) -> None:
    """It runs already: names at the top were read before it, those further down were not."""
    (root / ".git").mkdir(exist_ok=True)
    (root / "deep/er").mkdir(parents=True)
    for name in (".mcp.json", "deep/.env", "deep/er/.env"):
        (root / name).write_bytes(GOOD)
    await asyncio.sleep(0.02)  # the clock of files goes in ticks
    seen = early_scans(str(root))[str(root)]
    (root / ".mcp.json").write_bytes(EVIL)
    (root / ".env").write_bytes(EVIL)
    (root / ".git/hooks").mkdir(exist_ok=True)
    (root / ".git/hooks/post-commit").write_bytes(EVIL)
    (root / "deep/er/.env").write_bytes(EVIL)
    watch = Watcher(root, aside, early=seen)
    hold = await watch.begin()
    await until(lambda: not watch._checker.partial)
    (root / "deep/.env").write_bytes(EVIL)
    found = await hold.end()
    await watch.close()
    assert sorted((one.path, one.act, one.restored) for one in found) == [
        (".env", "created", True),
        (".git/hooks/post-commit", "created", True),
        (".mcp.json", "changed", True),
        ("deep/.env", "changed", True),
        ("deep/er/.env", "changed", False),
    ]
    assert (root / "deep/.env").read_bytes() == (root / ".mcp.json").read_bytes() == GOOD


async def test_folders_that_are_new_at_the_start_are_not_reported(root: Path, aside: Path) -> None:
    for number in range(watcher.FEW_FOLDERS + 50):
        (root / f"a{number}").mkdir()
    (root / f"a{watcher.FEW_FOLDERS + 49}/.env").write_bytes(GOOD)
    await asyncio.sleep(0.02)
    for early in (None, early_scans(str(root))[str(root)]):
        watch = Watcher(root, aside, early=early)
        assert await run(watch, root, "true") == ()
        await watch.close()
