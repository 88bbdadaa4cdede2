"""Warm agents: who may take one, when it is thrown away, and that none is left."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.sessions.warm.warm_desk import QUICK, WarmDesk, until, warm
from tillerman.agents import load
from tillerman.config import Config
from tillerman.core.events import Notice
from tillerman.core.permission import Rule
from tillerman.core.session_options import session_spec
from tillerman.sessions.permissions.project_rules import ProjectRules
from tillerman.sessions.run_settings import (
    EnforcementSettings,
    LaunchPlan,
    RunSettings,
    TurnLimits,
    UntilSettings,
    WorkspaceToolSettings,
)
from tillerman.sessions.warm import warm_agents
from tillerman.sessions.warm.warm_agents import may_be_warm, same_settings

DENY_BASH = Rule("no-bash", "deny", tools=("Bash",))
DENY_WRITE = Rule("no-write", "deny", tools=("Write",))
ALLOW_BASH = Rule("bash", "allow", tools=("Bash",))

# What a session is given, with two or more values each. Two plans are the same if all choices are.
SPEC: dict[str, list[Any]] = {
    "cwd": [Path("/a"), Path("/b"), Path("/a/b")],
    "folders": [(), (Path("/c"),), (Path("/c"), Path("/d"))],
    "model": [None, "quick", "deep"],
    "effort": [None, "high"],
    "mode": ["agent", "plan", "ask"],
    "system": [None, "", "Be brief."],
    "output_schema": [None, {"type": "object"}, {"type": "array"}],
    "resume": [None, "abc"],
    "allowed_tools": [(), ("Read",)],
    "denied_tools": [(), ("Read",), ("Bash",)],
    "only_tools": [(), ("Bash",)],
    "servers": [{}, {"a": {"command": "a"}}, {"a": {"command": "b"}}],
    "max_turns": [None, 3],
    "max_cost": [None, 0.5],
    "flags": [(), ("--x",), ("--x", "--y")],
    "options": [{}, {"script": "a"}, {"script": "b"}],
    "approve": ["ask", "readonly", "auto"],
    "accept_advisory": [False, True],
}
RUN: dict[str, list[Any]] = {
    "approve": ["ask", "readonly", "auto"],
    "supervision": ["auto", "namespace", "group"],
    "environment": [{}, {"A": "1"}, {"A": "2"}, {"A": "1", "B": ""}],
    "secrets": [[], [("A", "one")], [("A", "two")]],
    "limits": [TurnLimits(), TurnLimits(turn=5), TurnLimits(tokens=5), TurnLimits(request=1)],
    "vet": ["", "true"],
    "until": [UntilSettings(), UntilSettings("true")],
    "tools": [(), ("Bash",)],
    "rules": [
        (),
        (DENY_BASH,),
        (ALLOW_BASH,),
    ],
    "tightening": [(), (DENY_WRITE,)],
    "enforcement": [EnforcementSettings(), EnforcementSettings(commands="on")],
    "models": [{}, {"m": {"input": 1}}],
    "bench": [None, WorkspaceToolSettings({}), WorkspaceToolSettings({}, "high")],
    "output_cap": [50_000, 1],
    "spill_cap": [1, 2],
    "turn_cap": [1, 2],
    "line_cap": [1, 2],
}
CHOICES = {**{("spec", k): v for k, v in SPEC.items()}, **{("run", k): v for k, v in RUN.items()}}


def plan_of(agent: str, chosen: dict[tuple[str, str], int]) -> LaunchPlan:
    spec = {name: values[chosen["spec", name]] for name, values in SPEC.items()}
    run = {name: values[chosen["run", name]] for name, values in RUN.items()}
    return LaunchPlan(load(agent), session_spec(**spec), RunSettings(**run))


one_choice = st.fixed_dictionaries(
    {name: st.integers(0, len(values) - 1) for name, values in CHOICES.items()}
)


@given(one_choice, st.sampled_from(sorted(CHOICES)), st.data())
@settings(max_examples=400, deadline=None)
def test_settings_that_differ_in_anything_are_not_the_same(
    chosen: dict[tuple[str, str], int], name: tuple[str, str], data: st.DataObject
) -> None:
    other = {**chosen, name: data.draw(st.integers(0, len(CHOICES[name]) - 1))}
    same = same_settings(plan_of("mock", chosen), plan_of("mock", other))
    assert same == (chosen == other)
    assert not same_settings(plan_of("mock", chosen), plan_of("codex", chosen))


def test_every_setting_of_a_session_is_among_the_generated_ones() -> None:
    later = {"answer", "functions", "relays", "callbacks", "notices"}  # see the next tests
    assert {*RUN, *later} == set(RunSettings.__struct_fields__)


async def test_only_the_same_settings_take_a_warm_agent(desk: WarmDesk) -> None:
    pool = desk.pool()
    own = desk.plan({"options": {"script": "x"}})
    environment = own.run_settings.environment
    others = [
        desk.plan({"options": {"script": "y"}}),
        desk.plan({"options": {"script": "x"}, "mode": "plan"}),
        desk.plan({"options": {"script": "x"}, "cwd": desk.folder}),
        desk.plan({"options": {"script": "x"}}, {"approve": "ask"}),
        desk.plan({"options": {"script": "x"}}, {"supervision": "group"}),
        desk.plan({"options": {"script": "x"}}, {"environment": {**environment, "LANG": "C"}}),
        desk.plan({"options": {"script": "x"}}, {"secrets": [("KEY", "one-secret-value")]}),
        desk.plan({"options": {"script": "x"}}, {"rules": (DENY_BASH,)}),
    ]
    pool.used(own)
    await warm(pool)
    assert [await pool.take(other) for other in others] == [None] * len(others)
    notices = (Notice(level="info", kind="settings", text="told at the first turn"),)
    told = own._replace(run_settings=replace(own.run_settings, notices=notices))
    taken = await pool.take(told)
    assert taken
    assert taken.launched.early
    assert taken.launched.early.env["HOME"] == str(desk.home)
    assert await pool.take(own) is None  # nobody else gets it
    desk.end(taken)


def _write(path: str, text: str = "changed") -> Callable[[WarmDesk], None]:
    def write(desk: WarmDesk) -> None:
        file = desk.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    return write


def _commit(desk: WarmDesk) -> None:
    (desk.project / "new.txt").write_text("new")
    desk.git("add", ".")
    desk.git("commit", "-qm", "second")


def _remember(desk: WarmDesk) -> None:
    ProjectRules.of(desk.paths, desk.project).add(ALLOW_BASH)


CHANGES: dict[str, Callable[[WarmDesk], None]] = {
    "a commit": _commit,
    "another branch": lambda desk: desk.git("checkout", "-qb", "other"),
    "a changed file": _write("outer/project/a.txt"),
    "a new file": _write("outer/project/b.txt"),
    "a changed note that was changed before": _write("outer/project/notes.md", "again"),
    "instructions": _write("outer/project/CLAUDE.md"),
    "instructions that git ignores": _write("outer/project/ignored/AGENTS.md"),
    "instructions around the project": _write("outer/AGENTS.md"),
    "settings of the project": _write("outer/project/.claude/settings.json", "{}"),
    "servers of the project": _write("outer/project/.mcp.json", "{}"),
    "a git config": lambda desk: desk.git("config", "core.abbrev", "12"),
    "settings of the user": _write("home/.mock/settings.json", '{"a": 2}'),
    "a new skill of the user": _write("home/.mock/skills/new/SKILL.md"),
    "servers of the user": _write("home/.mock.json", '{"count": 1, "servers": {"b": {}}}'),
    "a remembered rule": _remember,
}
IRRELEVANT: dict[str, Callable[[WarmDesk], None]] = {
    "an ignored file": _write("outer/project/ignored/build.log"),
    "a state that the agent writes itself": _write(
        "home/.mock.json", '{"count": 2, "servers": {"a": {}}}'
    ),
    "another file of the user": _write("home/.bash_history"),
    "nothing": lambda desk: None,
}


def prepare(desk: WarmDesk) -> None:
    desk.repository()
    (desk.project / "ignored").mkdir()
    _write("outer/project/notes.md")(desk)
    _write("home/.mock/settings.json", "{}")(desk)
    _write("home/.mock/skills/old/SKILL.md")(desk)
    _write("home/.mock.json", '{"count": 1, "servers": {"a": {}}}')(desk)


@pytest.mark.parametrize("change", CHANGES)
async def test_an_agent_that_started_before_a_change_is_thrown_away(
    desk: WarmDesk, change: str
) -> None:
    prepare(desk)
    pool = desk.pool(check=0.5)
    plan = desk.plan()
    pool.used(plan)
    await warm(pool)
    before = desk.running()
    CHANGES[change](desk)
    assert await pool.take(plan) is None
    await until(lambda: not set(before) & set(desk.running()))


@pytest.mark.parametrize("change", IRRELEVANT)
async def test_a_change_that_no_agent_reads_at_its_start_leaves_it(
    desk: WarmDesk, change: str
) -> None:
    prepare(desk)
    pool = desk.pool(check=0.5)
    plan = desk.plan()
    pool.used(plan)
    await warm(pool)
    IRRELEVANT[change](desk)
    taken = await pool.take(plan)
    assert taken
    desk.end(taken)


async def test_the_settings_are_read_where_a_variable_moves_them(desk: WarmDesk) -> None:
    elsewhere = desk.folder / "elsewhere"
    environment = {**desk.plan().run_settings.environment, "MOCK_HOME": str(elsewhere)}
    plan = desk.plan(None, {"environment": environment})
    pool = desk.pool(check=0.5)
    pool.used(plan)
    await warm(pool)
    _write("elsewhere/settings.json")(desk)
    assert await pool.take(plan) is None


async def test_a_changed_program_is_not_used(desk: WarmDesk) -> None:
    program = desk.folder / "program"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    plan = desk.plan({"options": {"binary": str(program)}})
    pool = desk.pool(check=0.5)
    pool.used(plan)
    await warm(pool)
    program.write_text("#!/bin/sh\nexec sleep 61\n")
    assert await pool.take(plan) is None


async def test_after_a_change_the_next_agent_starts_once_all_is_at_rest(desk: WarmDesk) -> None:
    desk.repository()
    plan = desk.plan()
    pool = desk.pool()
    pool.used(plan)
    await warm(pool)
    (desk.project / "new.txt").write_text("new")
    await warm(pool, 0)
    await warm(pool)
    taken = await pool.take(plan)
    assert taken
    desk.end(taken)


async def test_no_more_agents_are_kept_than_allowed_and_the_oldest_goes(desk: WarmDesk) -> None:
    pool = desk.pool(2)
    plans = [desk.plan({"system": str(number)}) for number in range(4)]
    counts = []
    for plan in plans:
        pool.used(plan)
        for _ in range(10):
            await asyncio.sleep(QUICK)
            counts.append(pool.count)
    await warm(pool, 2)
    assert max(counts) == 2
    assert [await pool.take(plan) for plan in plans[:2]] == [None, None]
    for plan in plans[2:]:
        taken = await pool.take(plan)
        assert taken
        desk.end(taken)


async def test_an_agent_that_nobody_takes_is_ended_after_its_time(desk: WarmDesk) -> None:
    pool = desk.pool(age=1.0)
    pool.used(desk.plan())
    await warm(pool)
    await warm(pool, 0)
    await until(lambda: desk.running() == [])
    await asyncio.sleep(QUICK * 6)
    assert pool.count == 0


def test_the_bounds_are_those_that_the_documents_name() -> None:
    assert Config().server.warm_agents == 2
    assert (warm_agents.AGE, warm_agents.MEMORY) == (600, 1 << 30)


async def test_agents_that_need_too_much_memory_are_not_kept(desk: WarmDesk) -> None:
    pool = desk.pool(memory=1 << 20)  # less than any program of Python needs
    pool.used(desk.plan())
    await until(lambda: desk.running() != [])
    await until(lambda: desk.running() == [])
    assert pool.count == 0


async def test_an_agent_that_ends_by_itself_is_not_taken_and_not_started_again(
    desk: WarmDesk,
) -> None:
    pool = desk.pool(check=0.5)
    plan = desk.plan({"options": {"binary": "/bin/true"}})
    pool.used(plan)
    await until(lambda: desk.running() != [])
    await until(lambda: desk.running() == [])
    for _ in range(10):
        await asyncio.sleep(0.1)
        assert desk.running() == []
    assert await pool.take(plan) is None


async def test_an_agent_whose_warden_is_killed_is_not_taken(desk: WarmDesk) -> None:
    pool = desk.pool(check=0.5)
    plan = desk.plan()
    pool.used(plan)
    await warm(pool)
    for pid in desk.running():
        if pid in _children(os.getpid()):
            os.kill(pid, signal.SIGKILL)
    await until(lambda: desk.running() == [])
    assert await pool.take(plan) is None


def _children(pid: int) -> set[int]:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    found = [task.joinpath("children").read_text().split() for task in tasks]
    return set(map(int, itertools.chain.from_iterable(found)))


async def test_closing_ends_every_process_and_removes_every_folder(desk: WarmDesk) -> None:
    pool = desk.pool()
    scratch = desk.folder / "tmp"
    scratch.mkdir()
    environment = {**desk.plan().run_settings.environment, "TMPDIR": str(scratch)}
    for mode in ("agent", "plan"):
        pool.used(desk.plan({"mode": mode}, {"environment": environment}))
    await warm(pool, 2)
    files = len(list(Path("/proc/self/fd").iterdir()))
    assert len(list(scratch.iterdir())) == 2
    await pool.close()
    assert desk.running() == []
    assert list(scratch.iterdir()) == []
    assert list(desk.paths.spawns.iterdir()) == []
    assert len(list(Path("/proc/self/fd").iterdir())) < files


def test_an_agent_whose_command_line_depends_on_its_session_is_never_warm(desk: WarmDesk) -> None:
    assert may_be_warm(desk.plan())
    assert not may_be_warm(desk.plan({"resume": "abc"}))
    assert not may_be_warm(desk.plan({"servers": {"a": {"command": "a"}}}))
    assert not may_be_warm(desk.plan(None, {"bench": WorkspaceToolSettings({})}))
    assert not may_be_warm(desk.plan({"options": {"binary": "no-such-program"}}))


def test_an_agent_of_which_it_is_unknown_what_it_reads_is_never_warm(desk: WarmDesk) -> None:
    unknown = replace(desk.agent.info, start_files=None)
    desk.agent.info = unknown
    assert not may_be_warm(desk.plan())
