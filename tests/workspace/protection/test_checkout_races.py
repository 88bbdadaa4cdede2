"""Git at full speed beside the watcher: the result is as in an unwatched repository."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from tillerman.workspace.protection.protected_names import scan
from tillerman.workspace.protection.protected_state import NOTHING
from tillerman.workspace.protection.restore.contents import files_at
from tillerman.workspace.protection.restore.quarantine import Quarantine
from tillerman.workspace.protection.restore.restorer import ChangedMeanwhile, Restorer
from tillerman.workspace.protection.watcher import Undone, Watcher

WORKFLOW = ".github/workflows/ci.yml"
FILES: dict[str, dict[str, str]] = {
    "one": {WORKFLOW: "one\n", ".pre-commit-config.yaml": "one\n", "a.py": "one\n"},
    "two": {WORKFLOW: "two, and longer\n", ".vscode/tasks.json": "two\n", ".husky/x": "two\n"},
    "none": {"a.py": "none\n"},
    "all": {WORKFLOW: "one\n", ".vscode/tasks.json": "all\n", ".envrc": "all\n"},
}
WHO = {
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.org",
    "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z",
    "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z",
}


def environment(home: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(home), "LC_ALL": "C", **WHO}


def run(script: str, root: Path) -> str:
    done = subprocess.run(
        ["sh", "-c", script], cwd=root, env=environment(root.parent), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def prepare(root: Path) -> None:
    """Branches without a common file except the workflow, which differs in most."""
    root.mkdir()
    run("git init -q -b start && git commit -q --allow-empty -m start", root)
    for branch, files in FILES.items():
        run(f"git switch -q -c {branch} start", root)
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        run(f"git add -A && git commit -q -m {branch}", root)
    run("git switch -q one", root)


def steps(rng: random.Random, count: int) -> str:
    """Commands that change protected files to what commits of the start contain."""
    branches = list(FILES)
    made = "echo x > new; git add new; git commit -qm new"
    stashed = "echo x > new; git add new; git stash -q"
    ways = (
        "git switch -q {branch}",
        "git switch -q --detach {branch}",
        "git checkout -q -f {branch}",
        "git switch -q --detach start; git merge -q --ff-only {branch}",
        "git switch -q --detach start; git reset -q --hard {branch}",
        f"git switch -q {{branch}}; {made}; git reset -q --hard HEAD~1",
        f"git switch -q {{branch}}; {stashed}; git switch -q {{other}}; git stash drop -q",
        f"git switch -q --detach {{branch}}; {made}; git switch -q {{other}}",
    )
    chosen = (rng.choice(ways) for _ in range(count))
    return "\n".join(
        one.format(branch=rng.choice(branches), other=rng.choice(branches)) for one in chosen
    )


def outcome(root: Path) -> tuple[str, str, dict[str, bytes]]:
    """Git's status, and all files of the work tree."""
    files = {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and path.relative_to(root).parts[0] != ".git"
    }
    return run("git status --porcelain", root), run("git rev-parse HEAD", root), files


@pytest.mark.parametrize(
    "seeds", [range(2), pytest.param(range(2, 60), marks=pytest.mark.torture)], ids=str
)
@pytest.mark.timeout(900)
async def test_concurrent_git_ends_as_it_does_without_a_watcher(
    seeds: range, tmp_path: Path
) -> None:
    for seed in seeds:
        folder = tmp_path / str(seed)
        folder.mkdir()
        script = steps(random.Random(seed), 15)
        root, twin = folder / "watched", folder / "twin"
        prepare(root)
        shutil.copytree(root, twin, symlinks=True)
        run(script, twin)
        found: list[Undone] = []
        watch = Watcher(root, folder / "aside", report=found.extend)
        hold = await watch.begin()
        shell = await asyncio.create_subprocess_exec(
            "sh", "-ec", script, cwd=root, env=environment(folder)
        )
        assert await shell.wait() == 0, (seed, script)
        await watch.restore_changes()
        during = outcome(root)
        await hold.end()
        await watch.close()
        assert found == [], (seed, script)
        assert during == outcome(root) == outcome(twin), (seed, script)


@pytest.mark.parametrize("decided", [b"evil\n", b"", None], ids=["changed", "emptied", "removed"])
def test_only_decided_paths_are_removed(decided: bytes | None, tmp_path: Path) -> None:
    """Git replaced it after the decision: that stays, to be decided again."""
    root = tmp_path / "work"
    prepare(root)
    restorer = Restorer(root, Quarantine(tmp_path / "aside", root))
    restorer.accept()
    folder = restorer.folders.root
    before = scan(folder, NOTHING, baseline=True)
    mode = "100644"
    files = {} if decided is None else {WORKFLOW: (mode, decided)}
    (root / WORKFLOW).write_bytes(b"another\n")
    after = scan(folder, before, baseline=False)
    with pytest.raises(ChangedMeanwhile):
        restorer.undo(WORKFLOW, before, after, files)
    assert (root / WORKFLOW).read_bytes() == b"another\n"
    assert not (tmp_path / "aside").exists()
    assert list(root.rglob(".tillerman-*")) == []
    real = files_at(folder, WORKFLOW, WORKFLOW)
    assert real == {WORKFLOW: (mode, b"another\n")}
    assert restorer.undo(WORKFLOW, before, after, real).restored
    assert (root / WORKFLOW).read_bytes() == b"one\n"
    restorer.folders.close()


def test_a_new_folder_that_fills_up_meanwhile_stays_to_be_decided_again(tmp_path: Path) -> None:
    root = tmp_path / "work"
    prepare(root)
    restorer = Restorer(root, Quarantine(tmp_path / "aside", root))
    restorer.accept()
    folder = restorer.folders.root
    before = scan(folder, NOTHING, baseline=True)
    (root / ".vscode").mkdir()
    (root / ".vscode/tasks.json").write_text("two\n")
    after = scan(folder, before, baseline=False)
    with pytest.raises(ChangedMeanwhile):
        restorer.undo(".vscode", before, after, {})
    assert (root / ".vscode/tasks.json").read_text() == "two\n"
    restorer.folders.close()
