"""The same as an ordinary user and as root: the demo, the tests, ssh and set-uid programs in a
tool."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.real import local_sshd
from tests.real.clis import cache
from tests.real.ordinary_user import Clone, OrdinaryUser, python_for, until
from tillerman.supervision.linux.cgroup import Cgroup, NoCgroup

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

LEVELS = ["namespace", "cgroup", "subreaper", "group"]


@dataclass(frozen=True)
class Turn:
    """The result of a turn in which the agent's shell tool ran some commands."""

    code: int
    level: str | None
    outcomes: list[str]
    output: str
    errors: str


@pytest.fixture(scope="module")
def user() -> Iterator[OrdinaryUser]:
    if sys.platform != "linux":
        pytest.skip("the user is made with Linux's useradd")
    if os.geteuid() != 0:
        pytest.skip("only root can make a user")
    if missing := [name for name in ("useradd", "setpriv", "make") if not shutil.which(name)]:
        pytest.skip(f"not installed: {', '.join(missing)}")
    made = OrdinaryUser.create()
    try:
        yield made
    finally:
        made.remove()


@pytest.fixture(scope="module")
def clone(user: OrdinaryUser) -> Clone:
    python = python_for(user)
    if python is None:
        pytest.skip("no Python 3.11 with venv outside of root's folders")
    return Clone.make(user, python)


@pytest.fixture(scope="module")
def demo(clone: Clone) -> subprocess.CompletedProcess[str]:
    return clone.make_demo()


@pytest.fixture(scope="module")
def ready(clone: Clone, demo: subprocess.CompletedProcess[str]) -> Clone:
    assert demo.returncode == 0, demo.stderr
    return clone


@pytest.fixture(scope="module")
def chosen(ready: Clone) -> str:
    """The level that `auto` selects, as `tillerman doctor` reports."""
    ended = " (used, supervision = 'auto')"
    return next(text.removesuffix(ended) for _, text in doctor(ready) if text.endswith(ended))


@pytest.fixture(scope="module")
def server(user: OrdinaryUser) -> Iterator[local_sshd.Server]:
    if reason := local_sshd.missing():
        pytest.skip(reason)
    with local_sshd.serving(user, local_sshd.sshd_for(user)) as running:
        yield running


@pytest.fixture
def delegated(user: OrdinaryUser) -> Iterator[Cgroup]:
    """A control group that the user may divide, as in a desktop or login session."""
    try:
        group = Cgroup.create(f"tillerman-test-{user.name}")
    except (NoCgroup, OSError) as error:
        pytest.skip(f"no control group to give away: {error}")
    for name in ("", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"):
        os.chown(f"{group.folder}/{name}", user.uid, user.uid)
    yield group
    group.kill(5)
    group.remove()


@dataclass(frozen=True)
class Project:
    """A work tree with a commit that the repository on the ssh server does not have."""

    user: OrdinaryUser
    tree: Path
    bare: Path

    def arrived(self) -> bool:
        head = self.user.must_run("git", "rev-parse", "HEAD", cwd=self.tree).strip()
        there = self.user.must_run("git", "for-each-ref", "--format=%(objectname)", cwd=self.bare)
        return there.split() == [head]


@pytest.fixture
def project(user: OrdinaryUser, server: local_sshd.Server, tmp_path: Path) -> Project:
    tree, bare = user.home / tmp_path.name, user.home / f"{tmp_path.name}.git"
    user.must_run("git", "init", "-q", "--bare", "-b", "main", bare)
    user.must_run("git", "init", "-q", "-b", "main", tree)
    who = ("-c", f"user.name={user.name}", "-c", f"user.email={user.name}@localhost")
    user.must_run("git", *who, "commit", "-q", "--allow-empty", "-m", "First", cwd=tree)
    user.must_run("git", "remote", "add", "origin", f"ssh://{server.host}{bare}", cwd=tree)
    return Project(user, tree, bare)


def doctor(clone: Clone) -> list[tuple[str, str]]:
    """Its report on supervision."""
    output = clone.tillerman("doctor", "--json")
    assert output.returncode == 0, output.stderr
    findings = json.loads(output.stdout)
    return [(one["level"], one["text"]) for one in findings if one["about"] == "supervision"]


def take_turn(
    clone: Clone, *commands: str, cwd: Path, level: str = "", group: Cgroup | None = None
) -> Turn:
    script = json.dumps([{"run": command} for command in commands])
    ran = clone.tillerman(
        *("run", "-a", "mock", "--approve", "auto", "--json", script),
        cwd=cwd,
        group=Path(group.folder) if group else None,
        variables={"TILLERMAN_SUPERVISION": level} if level else {},
    )
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    events = [line["event"] for line in lines if "event" in line]  # else the error of the start
    taken = [event["supervision"] for event in events if event["type"] == "agent_started"]
    ended = [event for event in events if event["type"] == "tool_finished"]
    return Turn(
        code=ran.returncode,
        level=taken[0] if taken else None,
        outcomes=[event["outcome"] for event in ended],
        output="".join(part["text"] for event in ended for part in event["content"]),
        errors=ran.stderr,
    )


def assert_nothing_runs(user: OrdinaryUser, *but: int) -> None:
    until(
        lambda: user.processes().keys() <= set(but),
        within=2,
        told=lambda: f"left behind: {user.processes()}",
    )


def test_the_demo_works_first_in_a_clone(
    demo: subprocess.CompletedProcess[str], user: OrdinaryUser
) -> None:
    assert demo.returncode == 0, demo.stderr
    assert demo.stdout.count("Good morning, world") == 2  # once played, once played back
    assert list(user.scratch.iterdir()) == []


def test_doctor_names_the_level_that_auto_picks_and_why_none_above_it(
    ready: Clone, chosen: str
) -> None:
    assert chosen in ("cgroup", "subreaper")
    above = doctor(ready)[: LEVELS.index(chosen)]
    assert [(kind, text.partition(": ")[0]) for kind, text in above] == [
        ("note", level) for level in LEVELS[: len(above)]
    ]
    assert all(text.partition(": ")[2] for _, text in above)


def test_tests_that_depend_on_privileges_pass(ready: Clone) -> None:
    """`make test` passes too, and takes as long as for root."""
    ran = ready.pytest(
        "tests/supervision",
        "tests/sessions",
        "tests/surfaces/cli/test_run.py",
        "tests/surfaces/cli/test_second_terminal.py",
        "--ignore=tests/sessions/test_memory.py",
        "--ignore=tests/sessions/test_secrets_in_sessions.py",
    )
    assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr


def test_a_command_of_every_agent_is_requested_and_shown(user: OrdinaryUser, ready: Clone) -> None:
    """Some CLIs accept settings that only root could have written."""
    user.link(cache(), ".cache/tillerman/clis")
    ran = ready.pytest("-m", "real", "tests/real/test_conformance_real.py", "-k", "shell]")
    assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr
    assert "\n6 passed" in ran.stdout


def test_a_push_over_ssh_from_the_shell_tool_arrives(
    ready: Clone, chosen: str, project: Project, server: local_sshd.Server
) -> None:
    stray = "setsid sleep 300 > /dev/null 2>&1 &"
    turn = take_turn(ready, stray, "git push origin main", cwd=project.tree)
    assert (turn.code, turn.level) == (0, chosen), turn
    assert turn.outcomes == ["completed", "completed"], turn
    assert "Bad owner or permissions" not in turn.output
    assert project.arrived()
    assert_nothing_runs(ready.user, server.pid)


def test_a_push_arrives_from_a_group_that_a_login_delegates(
    ready: Clone, project: Project, server: local_sshd.Server, delegated: Cgroup
) -> None:
    stray = "setsid sleep 300 > /dev/null 2>&1 &"
    turn = take_turn(ready, stray, "git push origin main", cwd=project.tree, group=delegated)
    assert (turn.code, turn.level) == (0, "cgroup"), turn
    assert turn.outcomes == ["completed", "completed"], turn
    assert project.arrived()
    assert_nothing_runs(ready.user, server.pid)
    assert delegated.members() == set()


def test_ssh_would_refuse_in_the_namespace_that_auto_does_not_use(
    ready: Clone, project: Project, server: local_sshd.Server
) -> None:
    turn = take_turn(ready, "git push origin main", cwd=project.tree, level="namespace")
    if turn.code == 4:
        pytest.skip(turn.errors)
    assert (turn.level, turn.outcomes) == ("namespace", ["failed"]), turn
    assert f"Bad owner or permissions on {server.system_file}" in turn.output
    assert not project.arrived()


@pytest.mark.parametrize("level", LEVELS)
def test_a_requested_level_is_used_or_refused_but_never_lowered(ready: Clone, level: str) -> None:
    turn = take_turn(ready, "echo here", cwd=ready.folder, level=level)
    if turn.code == 0:
        assert (turn.level, turn.output) == (level, "here\n")
    else:
        assert (turn.code, turn.level, turn.output) == (4, None, ""), turn
        assert turn.errors.startswith(f"error: supervision level {level} is not available here: ")
        assert "\nhint: " in turn.errors


@pytest.mark.parametrize(
    ("program", "command"),
    [
        ("passwd", "passwd -S"),  # reads what only root may
        ("sudo", "sudo -n true; echo exit $?"),  # looks at the owners of its files
    ],
)
def test_a_set_uid_program_works_in_the_shell_tool_as_outside(
    ready: Clone, chosen: str, program: str, command: str
) -> None:
    if not shutil.which(program):
        pytest.skip(f"no {program} here")
    outside = ready.user.run("sh", "-c", f"{{ {command}; }} 2>&1")
    inside = take_turn(ready, command, cwd=ready.folder)
    assert (inside.code, inside.level, inside.output) == (0, chosen, outside.stdout), inside


def test_a_detached_turn_outlives_the_ssh_session_that_started_it(
    ready: Clone, user: OrdinaryUser, server: local_sshd.Server
) -> None:
    program = f"{ready.folder}/.venv/bin/tillerman"
    steps = json.dumps([{"say": "One."}, {"sleep": 5}, {"say": "Two."}])
    try:
        detach = f"{program} run --detach -a mock --approve auto {shlex.quote(steps)}"
        # on a terminal, which hangs up at its end: the server of an ordinary user gives none
        remote = f"script --quiet --return --command {shlex.quote(detach)} /dev/null"
        started = user.run("ssh", server.host, remote)
        assert started.returncode == 0, started.stdout + started.stderr
        session = started.stdout.split()[-1]
        while_it_runs = _kinds(ready, session)
        attached = user.run("ssh", server.host, f"{program} attach {session} --json")
        assert "turn_ended" not in while_it_runs
        assert "turn_started" in while_it_runs
        assert attached.returncode == 0, attached.stderr
        events = [json.loads(line)["event"] for line in attached.stdout.splitlines()]
        ends = [event["reason"] for event in events if event["type"] == "turn_ended"]
        assert ends == ["completed"], attached.stdout + attached.stderr
        said = ready.tillerman("sessions", "show", session).stdout
        assert "Two." in said
    finally:
        ready.tillerman("serve", "--stop", "--force")


def _kinds(clone: Clone, session: str) -> list[str]:
    shown = clone.tillerman("sessions", "show", session, "--json")
    assert shown.returncode == 0, shown.stderr
    return [json.loads(line)["event"]["type"] for line in shown.stdout.splitlines()]
