"""Git changes tracked protected files to their content in the repository, and to nothing else."""

from __future__ import annotations

import asyncio
import subprocess
import time
from pathlib import Path

import pytest

from tests.sessions.enforcement.test_protection import begin, notices, play, run
from tests.sessions.session_desk import Desk
from tillerman.supervision.client.supervision_levels import Level, probe
from tillerman.workspace.protection.git.known_commits import KnownCommits

WORKFLOW = ".github/workflows/ci.yml"
IDENTITY = ("-c", "user.name=a", "-c", "user.email=a@b")
COMMIT = "git -c user.name=a -c user.email=a@b commit -q"


@pytest.fixture(params=["auto", pytest.param("subreaper", marks=pytest.mark.torture)])
def level(request: pytest.FixtureRequest) -> str:
    if request.param != "auto" and (reason := asyncio.run(probe())[Level(request.param)]):
        pytest.skip(reason)
    return str(request.param)


def commit(root: Path, branch: str, files: dict[str, str | None]) -> None:
    run("git", "switch", "-q", "-C", branch, cwd=root)
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if text is None:
            path.unlink()
        else:
            path.write_text(text)
    run("git", "add", "-A", cwd=root)
    run("git", *IDENTITY, "commit", "-qm", branch, cwd=root)


def prepare(root: Path) -> None:
    """`one` and `two` differ in a workflow, and each has protected files of its own."""
    root.mkdir(parents=True, exist_ok=True)
    run("git", "init", "-q", cwd=root)
    commit(root, "base", {"main.py": "1\n", WORKFLOW: "base\n"})
    commit(root, "one", {WORKFLOW: "one\n", ".pre-commit-config.yaml": "one\n"})
    run("git", "switch", "-q", "base", cwd=root)
    commit(root, "two", {WORKFLOW: "two\n", ".vscode/tasks.json": "two\n", ".husky/x": "two\n"})
    run("git", "switch", "-q", "base", cwd=root)
    commit(root, "none", {WORKFLOW: None})
    run("git", "switch", "-q", "one", cwd=root)


def state(root: Path) -> tuple[str, str]:
    """What git finds changed, and the branch."""
    changed = run("git", "status", "--porcelain", cwd=root)
    return changed, run("git", "branch", "--show-current", cwd=root).strip()


STEPS = {
    "forth": "git switch -q two",
    "forth and back": "git switch -q two && sleep 0.6 && git switch -q one",
    "to one without it, and back": "git switch -q none && sleep 0.6 && git switch -q one",
    "an older commit, and back": "git switch -q --detach HEAD~1; sleep 0.6; git switch -q one",
    "with a commit of its own": (
        f"echo 2 > main.py; {COMMIT} -am mine; git switch -q two; sleep 0.6; git switch -q one"
    ),
    "a merge": f"git switch -q base && git merge -q --no-ff --no-edit two || {COMMIT} -m m",
    "a rebase": (
        "git switch -q base; echo 3 > new.py; git add new.py;"
        f"{COMMIT} -m new; GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b git rebase -q two"
    ),
    "a reset": "git reset -q --hard two",
    "in a hurry": (
        "for i in 1 2 3 4 5; do git switch -q two; git switch -q one; git switch -q none; done"
    ),
}


@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS)
async def test_a_checkout_of_committed_content_stays(desk: Desk, level: str, steps: str) -> None:
    prepare(desk.project)
    session = await begin(
        desk, ["sleep 0.5; export GIT_AUTHOR_NAME=a; " + steps], supervision=level
    )
    await play(session)
    await asyncio.sleep(0.6)
    assert state(desk.project)[0] == ""
    await session.close()
    assert state(desk.project)[0] == ""
    assert notices(desk, session) == []


PLUMBING = f"""
blob=$(echo evil | git hash-object -w --stdin)
GIT_INDEX_FILE=x git read-tree HEAD
GIT_INDEX_FILE=x git update-index --cacheinfo 100644,$blob,{WORKFLOW}
tree=$(GIT_INDEX_FILE=x git write-tree)
made=$(git -c user.name=a -c user.email=a@b commit-tree -p HEAD -m e $tree)
rm x
"""
TRICKS = {
    "committed by hand": f"{PLUMBING} git branch mine $made; git checkout -q mine",
    "a ref moved": f"{PLUMBING} git update-ref refs/heads/two $made; git checkout -q two",
    "reset": f"{PLUMBING} git reset -q --hard $made",
    "a replaced commit": f"{PLUMBING} git replace two $made; git checkout -q two",
    "a graft": (
        f"{PLUMBING} echo $(git rev-parse two) $made > .git/info/grafts; git checkout -q $made"
    ),
    "a locked index": f"touch .git/index.lock; echo evil > {WORKFLOW}; sleep 1",
    "an index that was written": f"git update-index -q --refresh; echo evil > {WORKFLOW}; sleep 1",
    "another branch's content": f"git show two:{WORKFLOW} > {WORKFLOW}; sleep 1",
    "a forged object": f"""{PLUMBING}
tree=$(git rev-parse two^{{tree}}); file=.git/objects/$(echo $tree | sed 's,^..,&/,')
other=$(git rev-parse $made^{{tree}}); chmod u+w $file
cp -f .git/objects/$(echo $other | sed 's,^..,&/,') $file; git checkout -q -f two""",
}


@pytest.mark.parametrize("trick", TRICKS.values(), ids=TRICKS)
async def test_content_not_reachable_from_the_initial_commits_is_undone(
    desk: Desk, level: str, trick: str
) -> None:
    prepare(desk.project)
    session = await begin(desk, ["sleep 0.5;" + trick], supervision=level)
    await play(session)
    await session.close()
    assert (desk.project / WORKFLOW).read_text() == "one\n"
    assert any(
        f"{WORKFLOW} was changed and has been restored" in one for one in notices(desk, session)
    )


async def test_files_that_git_does_not_have_are_still_protected(desk: Desk, level: str) -> None:
    prepare(desk.project)
    (desk.project / ".env").write_text("untracked\n")
    (desk.project / WORKFLOW).write_text("not committed yet\n")
    steps = f"git switch -q -m two; rm -f .env; git checkout -q -f one; git checkout {WORKFLOW}"
    session = await begin(desk, ["sleep 0.5;" + steps], supervision=level)
    await play(session)
    await session.close()
    assert (desk.project / ".env").read_text() == "untracked\n"
    assert (desk.project / WORKFLOW).read_text() == "not committed yet\n"


def test_refs_of_every_sort_are_known(tmp_path: Path) -> None:
    prepare(tmp_path)
    run("git", *IDENTITY, "tag", "-a", "-m", "t", "v1", "none", cwd=tmp_path)
    run("git", "pack-refs", "--all", cwd=tmp_path)
    run("git", "branch", "loose", cwd=tmp_path)
    run("git", "worktree", "add", "-q", "--detach", "../tree", "two", cwd=tmp_path)
    messages = run("git", "for-each-ref", "--format=%(objectname)", cwd=tmp_path).split()
    for root in (tmp_path, tmp_path.parent / "tree"):
        assert set(messages) <= KnownCommits(root).tips
    subprocess.run(["rm", "-rf", str(tmp_path.parent / "tree")], check=True)
    assert KnownCommits(tmp_path, until=1).tips == frozenset()


def test_a_ref_that_moved_since_the_start_is_not_used(tmp_path: Path) -> None:
    """Only the branch of HEAD is read immediately; for all others, only their state at the start
    counts."""
    prepare(tmp_path)
    time.sleep(0.05)  # the clock of files goes in ticks
    own, two, none = (
        run("git", "rev-parse", name, cwd=tmp_path).strip() for name in ("one", "two", "none")
    )
    known = KnownCommits(tmp_path)
    time.sleep(0.05)
    made = run(
        "git", *IDENTITY, "commit-tree", "-p", "one", "-m", "made", "one^{tree}", cwd=tmp_path
    ).strip()
    for name in ("one", "two", "new"):
        run("git", "update-ref", f"refs/heads/{name}", made, cwd=tmp_path)
    assert {own, none} <= known.tips
    assert not {made, two} & known.tips
