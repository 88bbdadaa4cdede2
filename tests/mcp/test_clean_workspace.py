"""Isolation leaves no files in the workspace: git and ls show only what the commands created."""

from __future__ import annotations

import os
import random
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.mcp.mcp_desk import PROCESS, Machine, Wire, pid_of, started, text, tree, until

pytestmark = pytest.mark.timeout(300)

LEVELS = ("basic", "medium", "high")
BRANCHES = ("main", "other")
# Every name that `high` once protected with a separate file, and other protected ones.
ABSENT = (
    ".claude", ".cursor", ".codex", ".gemini", ".qwen", ".opencode", ".agents", ".mcp.json",
    ".idea", ".husky", ".env", ".env.local", ".tillerman", ".envrc",
)  # fmt: skip


class Step(NamedTuple):
    """Commands that run at the same time, each in a separate folder; then a git command alone."""

    together: list[str]
    git: str


def steps(seed: int, count: int) -> Iterator[Step]:
    pick = random.Random(seed)
    for number in range(count):
        together = [_work(pick, f"area{at}", number) for at in range(pick.randint(1, 4))]
        yield Step(together, pick.choice(_GIT)(pick, number))


def _work(pick: random.Random, area: str, number: int) -> str:
    name = f"{area}/{pick.choice('abc')}"
    return pick.choice((
        f"mkdir -p {area} && echo {number} >> {name}",
        f"mkdir -p {area} && touch {name} && mv {name} {area}/moved{number}",
        f"rm -rf {area}",
        f"mkdir -p {area}/deep/er && ln -sf ../../a {area}/deep/er/link",
        f"mkdir -p {area} && echo '*.log' > {area}/.gitignore && echo x > {area}/x.log",
        f"git status --short > /dev/null; git log --oneline -3 > /dev/null; echo {number}",
        "false",
    ))  # fmt: skip


_GIT = (
    lambda pick, number: f"git add -A && git commit -qm 'step {number}'",
    lambda pick, number: "git add -A",
    lambda pick, number: "git clean -fdq",
    lambda pick, number: "git clean -fdxq",
    lambda pick, number: "git stash -qu && git stash pop -q",
    lambda pick, number: "git reset -q --hard",
    lambda pick, number: (
        f"git add -A; git commit -qm before; git switch -q {pick.choice(BRANCHES)}"
    ),
    lambda pick, number: "git ls-files --others --exclude-standard",
)


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", *words],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": "/nowhere", "LC_ALL": "C"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout


def make_repository(folder: Path) -> None:
    """Creates a repository with a tracked protected name that differs between branches."""
    folder.mkdir(exist_ok=True)
    git(folder, "init", "-qb", "main")
    git(folder, "config", "user.name", "A")
    git(folder, "config", "user.email", "a@example.com")
    (folder / "readme").write_text("read me\n")
    (folder / ".vscode").mkdir()
    for branch in reversed(BRANCHES):
        (folder / ".vscode/settings.json").write_text(f'{{"branch": "{branch}"}}\n')
        git(folder, "switch", "-qC", branch)
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", branch)


def seen(folder: Path) -> dict[str, Any]:
    """The workspace as seen from outside."""
    return {
        "names": sorted(
            str(path.relative_to(folder))
            for path in folder.rglob("*")
            if ".git" not in path.relative_to(folder).parts
        ),
        "status": git(folder, "status", "--porcelain", "-uall", "--ignored"),
        "commits": git(folder, "log", "--format=%s"),
        "tree": git(folder, "ls-tree", "-r", "HEAD"),
    }


def run_plainly(folder: Path, command: str, environment: dict[str, str]) -> int:
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )
    return done.returncode


def code_of(result: dict[str, Any]) -> int:
    assert "exit_code" in result["_meta"]["tillerman/result"], text(result)
    code: int = result["_meta"]["tillerman/result"]["exit_code"]
    return code


def isolated(machine: Machine, level: str) -> Wire:
    wire = machine.greeted("--approve", "auto", "--isolation", level)
    first = wire.call("execute_shell", command="true")
    if first["isError"] and "isolation" in text(first):
        pytest.skip(text(first))
    return wire


def compare_with_twin(machine: Machine, level: str, seed: int, count: int) -> None:
    twin = machine.folder / "twin"
    make_repository(machine.project)
    make_repository(twin)
    wire = isolated(machine, level)
    started(wire)  # a command of this level runs all the time
    for step in steps(seed, count):
        calls = [
            wire.begin("execute_shell", command=script(machine.project, at, command))
            for at, command in enumerate(step.together)
        ]
        codes = [code_of(wire.called(call)) for call in calls]
        last = script(machine.project, len(calls), step.git)
        codes.append(code_of(wire.call("execute_shell", command=last)))
        everything = [*step.together, step.git]
        assert codes == [run_plainly(twin, one, machine.environment) for one in everything], step
        assert seen(machine.project) == seen(twin), step


def script(folder: Path, number: int, command: str) -> str:
    """A command line that runs it from a script, which the policy does not read."""
    (folder / f".git/step{number}").write_text(command)
    return f"sh .git/step{number}"


@pytest.mark.parametrize("level", LEVELS)
def test_random_commands_leave_what_they_leave_without_isolation(
    machine: Machine, level: str
) -> None:
    compare_with_twin(machine, level, seed=LEVELS.index(level), count=6)


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(100, 105))
@pytest.mark.parametrize("level", LEVELS)
def test_a_hundred_random_commands_leave_what_they_leave_without_isolation(
    machine: Machine, level: str, seed: int
) -> None:
    compare_with_twin(machine, level, seed, count=40)


@pytest.mark.parametrize("level", LEVELS)
def test_a_protected_name_that_a_command_makes_is_gone_when_it_has_ended(
    machine: Machine, level: str
) -> None:
    make_repository(machine.project)
    before = seen(machine.project)
    wire = isolated(machine, level)
    for name in ABSENT:
        done = wire.call("execute_shell", command=f"echo made > {name}; ls {name}")
        assert name in text(done)
        assert seen(machine.project) == before, name


@pytest.mark.parametrize("victim", ["server", "warden", "keeper"])
@pytest.mark.parametrize("level", ["medium", "high"])
def test_a_kill_leaves_nothing_in_the_workspace(machine: Machine, level: str, victim: str) -> None:
    make_repository(machine.project)
    before = seen(machine.project)
    wire = isolated(machine, level)
    process = started(wire, "echo ready; exec sleep 73.411")
    until(lambda: tree("73.411"))
    assert seen(machine.project) == before
    pid = pid_of(wire.call("poll_process", process_id=process))
    os.kill(_supervisors(pid, wire.process.pid)[victim], signal.SIGKILL)
    if victim == "server":
        wire.wait()
        assert seen(machine.project) == before
        wire = machine.greeted("--approve", "auto", "--isolation", level)
        wire.call("kill_process", process_id=process)
    until(lambda: not tree("73.411"))
    assert seen(machine.project) == before
    assert PROCESS.search(text(wire.call("list_processes")))
    assert seen(machine.project) == before


def _supervisors(pid: int, server: int) -> dict[str, int]:
    """The supervisors of the program, by its parents."""
    parents = []
    while (pid := _parent(pid)) not in (0, 1, server):
        parents.append(pid)
    return {"server": server, "warden": parents[-1], "keeper": parents[0]}


def _parent(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("PPid:"):
            return int(line.split()[1])
    return 0
