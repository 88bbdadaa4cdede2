"""Whole sessions with an agent whose shell writes protected names and reads denied files."""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from tests.sessions.protected_writers import (
    EVIL,
    GOOD,
    WriterLog,
    prepare,
    protected,
    writer_command,
)
from tests.sessions.session_desk import Desk
from tillerman.core.errors import SupervisionUnavailable
from tillerman.core.events import AgentStarted, Enforced, Notice
from tillerman.core.permission import Rule
from tillerman.sessions.run_settings import EnforcementSettings
from tillerman.sessions.session import Session
from tillerman.supervision.client.supervision_levels import Level, probe
from tillerman.workspace.protection.restore.quarantine import items
from tillerman.workspace.protection.restore.take_back import take_back

State = dict[str, tuple[int, bytes]]


@pytest.fixture(scope="module")
def refusals() -> dict[Level, str | None]:
    return asyncio.run(probe())


@pytest.fixture(params=list(Level), ids=str)
def level(request: pytest.FixtureRequest, refusals: dict[Level, str | None]) -> str:
    if reason := refusals[request.param]:
        pytest.skip(reason)
    return str(request.param)


@pytest.fixture
def namespace(refusals: dict[Level, str | None]) -> str:
    if reason := refusals[Level.NAMESPACE]:
        pytest.skip(reason)
    return "namespace"


async def begin(
    desk: Desk, commands: Sequence[str], name: str = "", **run_settings: object
) -> Session:
    """The agent runs each as a file, so that the shell reader cannot help."""
    steps = []
    for number, text in enumerate(commands):
        path = desk.folder / f"step-{name}{number}.sh"
        path.write_text(text)
        steps.append({"run": f"sh {path}"})
    script = desk.folder / f"script{name}.json"
    script.write_text(json.dumps([steps]))
    return await desk.start(str(script), **run_settings)


async def play(session: Session) -> None:
    await session.prompt("go")
    await session.idle()


async def until(condition: Callable[[], object], seconds: float = 5) -> float:
    start = time.monotonic()
    while not condition():
        assert time.monotonic() < start + seconds, "it did not come to pass"
        await asyncio.sleep(0.005)
    return time.monotonic() - start


def run(*words: str, cwd: Path) -> str:
    return subprocess.run(words, cwd=cwd, capture_output=True, text=True, check=True).stdout


def notices(desk: Desk, session: Session) -> list[str]:
    from tillerman.sessions.session import read_all

    found = read_all(desk.sessions.log, session.id)
    return [e.event.text for e in found if isinstance(e.event, Notice) and e.event.kind == "files"]


def states(desk: Desk, session: Session) -> tuple[Enforced, ...]:
    from tillerman.sessions.session import read_all

    started = [e.event for e in read_all(desk.sessions.log, session.id)]
    return next(event.enforcement for event in started if isinstance(event, AgentStarted))


def changed(before: State, after: State) -> dict[str, tuple[object, object]]:
    return {
        path: (before.get(path), after.get(path))
        for path in before.keys() | after.keys()
        if before.get(path) != after.get(path)
    }


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("count", "seconds"),
    [(20, 1), pytest.param(500, 120, marks=pytest.mark.torture)],
    ids=["20 writers", "500 writers"],
)
async def test_no_random_writer_changes_a_protected_name(
    desk: Desk, level: str, count: int, seconds: float
) -> None:
    """Another session in the same folder has separate writers."""
    seed = f"{level}-{os.environ.get('TILLERMAN_SEED', '1')}"
    prepare(desk.project, random.Random(seed))
    before = protected(desk.project)
    log = WriterLog(desk.folder / "writers.jsonl")
    both = [
        await begin(desk, [writer_command(f"{seed}-{one}", count // 2, seconds, log.path)], one,
                    supervision=level)
        for one in ("here", "beside")
    ]  # fmt: skip
    await asyncio.gather(*map(play, both))
    await until(lambda: log.ended.count("daemon") == 2, 3 * seconds + 60)
    with suppress(AssertionError):
        await until(lambda: protected(desk.project) == before, 5)
    assert changed(before, protected(desk.project)) == {}
    for session in both:
        await session.close()
    assert changed(before, protected(desk.project)) == {}
    texts = [text for session in both for text in notices(desk, session)]
    assert log.unreported(texts) == []
    assert log.ended == ["daemon", "daemon", "program", "program"]
    done = sum(bool(line["ok"]) for line in log.writes)
    assert done > count // 4
    print(f"{level}: {len(log.writes)} writes, {done} done, {len(texts)} reported, 0 stayed")


async def test_a_background_process_is_undone_within_a_second_and_reported(
    desk: Desk, level: str
) -> None:
    prepare(desk.project, random.Random(0))
    (desk.project / ".vscode").mkdir(exist_ok=True)
    before = protected(desk.project)
    writer = f"(sleep 0.5; echo '{EVIL}' > .windsurf; sleep 30) > /dev/null 2>&1 &"
    session = await begin(desk, [writer], supervision=level)
    await play(session)
    await until(lambda: any(".windsurf was created" in one for one in notices(desk, session)))
    assert await until(lambda: protected(desk.project) == before, 1) < 1
    (text,) = notices(desk, session)
    (found,) = items(desk.paths.quarantine)
    assert f"`tillerman protected take-back {found[1].id}`" in text
    await session.close()


async def test_undone_changes_are_restored_on_request_while_sessions_watch(
    desk: Desk, level: str
) -> None:
    prepare(desk.project, random.Random(0))
    sessions = [await begin(desk, ["true"], supervision=level) for _ in range(2)]
    for session in sessions:
        await play(session)
    target = desk.project / ".overcommit.yml"
    target.write_text("the user's own\n")
    await until(lambda: not target.exists())
    await until(lambda: list(items(desk.paths.quarantine)))
    for folder, item in items(desk.paths.quarantine):
        if not target.exists():
            assert take_back(folder, item, desk.paths.accepted) == target
    await asyncio.sleep(0.5)
    assert target.read_text() == "the user's own\n"
    for session in sessions:
        await session.close()
    assert target.read_text() == "the user's own\n"


ORDINARY_GIT = """
set -e
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org GIT_AUTHOR_DATE=2026-01-01T00:00:00Z
export GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.org
export GIT_COMMITTER_DATE=2026-01-01T00:00:00Z GIT_TERMINAL_PROMPT=0
git remote add origin "$1"
git push -q -u origin main
git config user.name Ann
git config user.email ann@example.org
git fetch -q
git branch -q other
git push -q origin other
git branch -q -D other
git switch -q --track origin/other
echo one > one.txt; git add one.txt; git commit -q -m one
echo two > two.txt; git add two.txt; git commit -q -m two --author 'B <b@example.org>'
echo three >> one.txt; git stash -q; git stash pop -q; git stash -q
git switch -q main
echo base > base.txt; git add base.txt; git commit -q -m base
git switch -q other
git rebase -q main
git push -q --force-with-lease
git switch -q main
git merge -q --no-ff --no-edit other
git cherry-pick -n main~1 2> /dev/null || git cherry-pick --abort || true
git reset -q --hard
git tag v1; git push -q --tags
git worktree add -q "$2" -b side
git config branch.main.description x
git -c protocol.file.allow=always submodule update -q --init
git submodule foreach -q 'git switch -q -C work'
git remote rename origin upstream
git remote set-url upstream "$1"
git gc -q
"""
SAYINGS = """
git config --local --list
git for-each-ref --format '%(refname) %(objectname) %(upstream)'
git status --porcelain
git stash list
git submodule status
git worktree list --porcelain
git -C lib config --local --list
"""


def git_outcome(root: Path, bare: Path, tree: Path) -> list[str]:
    """What git reports of it, in any of its folders."""
    message = run("sh", "-ec", SAYINGS, cwd=root)
    for path, name in ((bare, "BARE"), (tree, "TREE"), (root, "ROOT")):
        message = message.replace(str(path), name)
    return sorted(message.splitlines())


async def test_ordinary_git_works_as_in_an_unwatched_repository(desk: Desk, level: str) -> None:
    prepare(desk.project, random.Random(1))
    library = desk.folder / "library"
    prepare(library, random.Random(2))
    identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always")
    run("git", *identity, "submodule", "add", "-q", str(library), "lib", cwd=desk.project)
    run("git", *identity, "commit", "-qm", "library", cwd=desk.project)
    run("git", "submodule", "deinit", "-q", "--all", cwd=desk.project)
    shutil.rmtree(desk.project / ".git/modules")
    twin = desk.folder / "twin"
    shutil.copytree(desk.project, twin, symlinks=True)
    places = {}
    for root in (desk.project, twin):
        bare, tree = desk.folder / f"{root.name}.git", desk.folder / f"{root.name}-tree"
        run("git", "clone", "-q", "--bare", str(root), str(bare), cwd=desk.folder)
        places[root] = bare, tree
    script = desk.folder / "ordinary.sh"
    script.write_text(ORDINARY_GIT)
    run("sh", str(script), *map(str, places[twin]), cwd=twin)
    bare, tree = places[desk.project]
    command = (
        f"sh {script} {bare} {tree} > {desk.folder}/said 2>&1 || echo failed >> {desk.folder}/said"
    )
    session = await begin(desk, [command], supervision=level)
    await play(session)
    await session.close()
    assert (desk.folder / "said").read_text() == ""
    assert git_outcome(desk.project, bare, tree) == git_outcome(twin, *places[twin])
    assert [text for text in notices(desk, session) if "a folder that is new" not in text] == []


async def test_denied_files_are_hidden_but_not_those_that_git_tracks(
    desk: Desk, namespace: str
) -> None:
    prepare(desk.project, random.Random(2))
    for path in ("deep/er/secret.key", "keys/one", "tracked.key"):
        (desk.project / path).parent.mkdir(parents=True, exist_ok=True)
        (desk.project / path).write_text("canary-71")
    run("git", "add", "tracked.key", cwd=desk.project)
    rules = (Rule("secrets", "deny", paths=("*.key", "keys/**"), source="user"),)
    commands = (
        "cat deep/er/secret.key > a; cat keys/* > b; ls keys > c; cp deep/er/secret.key d;"
        "cat tracked.key > e; (sleep 0.4; true)",
        "true",
    )
    session = await begin(desk, commands, supervision=namespace, rules=rules)
    await play(session)
    seen = {name: desk.project / name for name in "abcde"}
    assert {name: path.read_text() if path.exists() else "" for name, path in seen.items()} == {
        "a": "", "b": "", "c": "", "d": "", "e": "canary-71",
    }  # fmt: skip
    found = [one for one in states(desk, session) if one.what == "denied paths"]
    assert [(one.state, one.paths) for one in found] == [
        ("enforced", ("deep/er/secret.key", "keys")),
        ("advisory", ("tracked.key",)),
    ]
    assert (desk.project / "deep/er/secret.key").read_text() == "canary-71"
    await session.close()


async def test_a_session_reports_its_protection(desk: Desk, level: str) -> None:
    prepare(desk.project, random.Random(3))
    (desk.project / ".zed").mkdir()
    rules = (Rule("secrets", "deny", paths=("nothing.key",), source="user"),)
    session = await begin(desk, ["true"], supervision=level, rules=rules)
    await play(session)
    found = states(desk, session)
    await session.close()
    enforced = [one for one in found if (one.what, one.state) == ("protected names", "enforced")]
    if level == "namespace":
        assert {".git/hooks", ".zed"} <= set(enforced[0].paths)
    else:
        assert enforced == []
        assert (
            Enforced(
                "denied paths",
                "advisory",
                f"supervision level {level} has no mount namespace",
                ("nothing.key",),
            )
            in found
        )
    assert any((one.what, one.state) == ("protected names", "restored") for one in found)


async def test_required_mounts_that_are_unavailable_refuse_the_start(desk: Desk) -> None:
    prepare(desk.project, random.Random(4))
    required = EnforcementSettings(protected="mounts")
    with pytest.raises(SupervisionUnavailable, match="no mount namespace") as refused:
        await begin(desk, ["true"], supervision="subreaper", enforcement=required)
    assert 'enforcement.protected = "auto"' in refused.value.hint


async def test_an_edit_from_outside_stays_and_is_mounted_again(desk: Desk, namespace: str) -> None:
    prepare(desk.project, random.Random(5))
    (desk.project / ".zed").mkdir()
    settings = desk.project / ".zed/settings.json"
    settings.write_text(GOOD)
    (desk.project / ".windsurf").write_text(GOOD)
    wait = "until [ -e go ]; do sleep 0.02; done; echo evil > .windsurf; cat .windsurf > seen"
    session = await begin(desk, [wait], supervision=namespace)
    await session.prompt("go")
    await asyncio.sleep(0.5)
    settings.write_text("edited in place\n")
    (desk.project / "draft").write_text("edited by rename\n")
    (desk.project / "draft").rename(desk.project / ".windsurf")
    await asyncio.sleep(0.5)
    (desk.project / "go").touch()
    await session.idle()
    await session.close()
    assert settings.read_text() == "edited in place\n"
    assert (desk.project / ".windsurf").read_text() == "edited by rename\n"
    assert (desk.project / "seen").read_text() == "edited by rename\n"
    assert notices(desk, session) == []


async def test_writes_that_a_rule_allows_are_not_protected(desk: Desk, level: str) -> None:
    prepare(desk.project, random.Random(6))
    (desk.project / ".zed").mkdir()
    rules = (Rule("mine", "allow", tools=frozenset({"write"}), paths=(".zed/**",), source="user"),)
    write = "echo fine > .zed/tasks.json; echo evil > .kiro"
    session = await begin(desk, [write], supervision=level, rules=rules)
    await play(session)
    await session.close()
    assert (desk.project / ".zed/tasks.json").read_text() == "fine\n"
    assert not (desk.project / ".kiro").exists()


async def test_a_worktree_protects_the_repository_it_belongs_to(desk: Desk, level: str) -> None:
    main = desk.folder / "main"
    prepare(main, random.Random(7))
    before = protected(main)
    add = ["git", "worktree", "add", "-q", "-B", "side", str(desk.project)]
    shutil.rmtree(desk.project, ignore_errors=True)
    run(*add, cwd=main)
    evil = f"echo evil > {main}/.git/hooks/post-commit; git config core.pager evil; rm .git"
    session = await begin(desk, [evil], supervision=level)
    await play(session)
    await session.close()
    assert protected(main) == before
    assert Path(desk.project / ".git").read_text().startswith("gitdir: ")


@pytest.mark.parametrize(
    "fixes",
    [
        "chattr +i .git/hooks/pre-commit .claude/settings.local.json",
        "chattr +a .git/hooks/pre-commit .git/hooks",
        "chattr +i .git/hooks .claude",
        "git config core.fsmonitor x; chattr +i .git/config",
    ],
)
async def test_a_file_that_was_made_immutable_is_restored(
    desk: Desk, level: str, fixes: str
) -> None:
    if os.geteuid() or not shutil.which("chattr"):
        pytest.skip("only root can make a file immutable")
    prepare(desk.project, random.Random(3))
    before = protected(desk.project)
    command = (
        "cp main.py .git/hooks/pre-commit; mkdir -p .claude; echo x > .claude/settings.local.json\n"
        f"{fixes} 2> /dev/null\ntrue"
    )
    session = await begin(desk, [f"cd {desk.project}\n{command}"], supervision=level)
    await play(session)
    await session.close()
    assert changed(before, protected(desk.project)) == {}


async def test_a_name_that_is_not_utf_8_is_restored_and_taken_back(desk: Desk, level: str) -> None:
    prepare(desk.project, random.Random(3))
    there, new = (desk.project / os.fsdecode(name) for name in (b".env.\xfe", b".env.\xff"))
    there.write_text(GOOD)
    (desk.project / os.fsdecode(b"folder \xff\xc3\xa9")).mkdir()
    before = protected(desk.project)
    command = (
        'for name in .env.*; do echo evil > "$name"; done\nprintf x > "$(printf \'.env.\\377\')"'
    )
    session = await begin(desk, [f"cd {desk.project}\n{command}"], supervision=level)
    await play(session)
    await until(lambda: protected(desk.project) == before)
    await session.close()
    assert changed(before, protected(desk.project)) == {}
    back = [take_back(*one, desk.paths.accepted) for one in items(desk.paths.quarantine)]
    assert new in back
    assert new.read_text() == "x"
