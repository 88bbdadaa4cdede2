"""Runs that are paused, continued, killed, answered and taken over, from other processes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.pipelines.run_desk import APPROVE, Desk, kill, until, until_ended, until_step
from tillerman.core.errors import UsageError
from tillerman.pipelines.engine import Engine, RunBusy
from tillerman.pipelines.run_state import RunSpec
from tillerman.pipelines.steps import CommandStep, LoopStep, ParallelStep, ReviewStep


def chain(desk: Desk) -> RunSpec:
    return desk.spec(
        desk.command("one", "sleep 1"),
        desk.command("two", needs=("one",)),
        desk.command("three", needs=("two",)),
    )


def sleeping(desk: Desk) -> list[str]:
    return [one for one in desk.processes() if "sleep 300" in one]


async def test_an_answer_from_another_process_goes_on_within_a_second(
    desk: Desk, engine: Engine
) -> None:
    gate = ReviewStep(id="gate")
    await engine.start("run", desk.spec(gate, desk.command("after", needs=("gate",))))
    await until_step(engine.store, "run", "gate", "waiting")
    words = [sys.executable, "-m", "tillerman", "pipeline", "approve", "run"]
    answering = await asyncio.create_subprocess_exec(*words, env=desk.environment)
    await until(lambda: not engine.store.gates("run", unanswered=True))
    answered = time.monotonic()
    await until_step(engine.store, "run", "after", "completed")
    took = time.monotonic() - answered
    assert await answering.wait() == 0
    assert (await engine.wait("run")).status == "completed"
    assert took < 1 + 0.5, took  # and the step itself


async def test_a_paused_run_starts_nothing_and_goes_on_later(desk: Desk) -> None:
    owner = desk.owner("run", chain(desk))
    async with desk.control() as control:
        await until_step(control.store, "run", "one", "running")
        await control.control("run", "paused")
        assert await asyncio.to_thread(owner.wait, 30) == 1
        assert control.look("run").status == "paused"
        assert desk.started() == ["one"]
        assert control.store.result("run", "one").ok  # type: ignore[union-attr]
        assert desk.processes() == []
        await asyncio.to_thread(desk.finish, "run")
        assert control.look("run").status == "completed"
    assert desk.started() == ["one", "two", "three"]
    assert owner.stdout
    owner.stdout.close()
    await desk.nothing_left()


async def test_a_run_can_be_continued_while_its_process_still_runs_a_step(desk: Desk) -> None:
    flag = desk.home / "flag"
    steps = (
        desk.command("one", f"while [ ! -e {flag} ]; do sleep 0.1; done"),
        desk.command("two", needs=("one",)),
        desk.command("three", needs=("two",)),
    )
    owner = desk.owner("run", desk.spec(*steps))
    async with desk.control() as control:
        await until_step(control.store, "run", "one", "running")
        for _ in range(3):
            await control.control("run", "paused")
            await control.control("run", "running")
        flag.touch()
        output, _ = await asyncio.to_thread(owner.communicate, timeout=60)
        assert control.look("run").status == "completed", output
    assert desk.started() == ["one", "two", "three"]


async def test_killing_a_run_ends_all_its_agents_and_commands(desk: Desk) -> None:
    both = ParallelStep(
        id="both",
        steps=(desk.agent("agent", {"run": "sleep 300"}), desk.command("command", "sleep 300")),
    )
    loop = LoopStep(id="loop", steps=(both,), until="true")
    owner = desk.owner("run", desk.spec(loop, desk.command("after", needs=("loop",))))
    async with desk.control() as control:
        for name in ("agent", "command"):
            await until_step(control.store, "run", f"loop/i1/both/{name}", "running")
        await until(lambda: len(sleeping(desk)) >= 2)
        begun = time.monotonic()
        await control.control("run", "killed")
        await until(lambda: not sleeping(desk))
        assert time.monotonic() - begun < 6
        await asyncio.to_thread(owner.communicate, timeout=60)
        assert control.look("run").status == "killed"
        with pytest.raises(UsageError, match="run is killed"):
            await control.control("run", "running")
    assert "after" not in desk.started()
    await desk.nothing_left()


async def test_a_run_whose_process_is_dead_can_be_killed(desk: Desk) -> None:
    owner = desk.owner("run", chain(desk))
    async with desk.control() as control:
        await until_step(control.store, "run", "one", "running")
        kill(owner)
        await control.control("run", "killed")
        assert control.look("run").status == "killed"
    assert owner.stdout
    owner.stdout.close()
    await desk.nothing_left()


async def test_an_interrupt_stops_the_step_and_a_later_process_repeats_only_that(
    desk: Desk,
) -> None:
    spec = desk.spec(desk.command("one"), desk.agent("two", {"sleep": 4}, needs=("one",)))
    owner = desk.owner("run", spec)
    async with desk.control() as control:
        await until(lambda: any(row.session for row in control.store.steps("run")))
        owner.send_signal(signal.SIGINT)
        await asyncio.to_thread(owner.communicate, timeout=60)
        assert control.store.result("run", "two") is None
        assert not control.look("run").alive
        assert desk.processes() == []
        await asyncio.to_thread(desk.finish, "run")
        assert control.look("run").status == "completed"
        lines = [line.text for line in control.store.log_lines("run")]
        assert any("resumes session" in line for line in lines), lines
    assert desk.started()[0] == "one"
    assert desk.started().count("one") == 1


async def test_an_agent_that_restarts_does_so_in_a_clean_worktree(desk: Desk) -> None:
    half = desk.agent(
        "half", {"write": "half-done.txt", "text": "x\n"}, {"sleep": 3}, interrupted="restart"
    )
    owner = desk.owner("run", desk.spec(half))
    async with desk.control() as control:
        await until(lambda: any(desk.paths.worktrees.glob("*/run/*/half-done.txt")))
        kill(owner)
        for file in desk.paths.worktrees.glob("*/run/*/half-done.txt"):
            file.with_name("left-over.txt").write_text("from the first attempt\n")
        await asyncio.to_thread(desk.finish, "run")
        assert control.look("run").status == "completed"
        texts = [line.text for line in control.store.log_lines("run")]
        assert "it was interrupted, and starts again in a clean worktree" in texts
    assert desk.git("ls-tree", "--name-only", "main").split() == [
        "README",
        "half-done.txt",
        "half.txt",
    ]
    assert owner.stdout
    owner.stdout.close()


async def test_one_process_runs_a_run(desk: Desk, engine: Engine) -> None:
    owner = desk.owner("run", chain(desk))
    await until_step(engine.store, "run", "one", "running")
    with pytest.raises(RunBusy):
        await engine.start("run", chain(desk))
    assert not await engine.adopt("run")
    kill(owner)
    assert await engine.adopt("run")
    assert (await asyncio.wait_for(engine.wait("run"), 60)).status == "completed"
    assert [one for one in desk.started() if one != "one"] == ["two", "three"]
    assert owner.stdout
    owner.stdout.close()


async def test_a_stopped_process_keeps_its_run(desk: Desk, engine: Engine) -> None:
    """A process that is stopped has not lost its run: nobody may take it over meanwhile."""
    owner = desk.owner("run", chain(desk))
    await until_step(engine.store, "run", "one", "running")
    os.kill(owner.pid, signal.SIGSTOP)
    assert not await engine.adopt("run")
    os.kill(owner.pid, signal.SIGCONT)
    await asyncio.to_thread(owner.communicate, timeout=60)
    assert (await until_ended(engine.store, "run")).status == "completed"
    assert desk.started() == ["one", "two", "three"]


async def test_eight_processes_start_at_once_on_new_files(desk: Desk) -> None:
    spec = desk.spec(CommandStep(id="one", command="note one"), git=None)
    owners = [desk.owner(f"run{number}", spec) for number in range(8)]
    outputs = [await asyncio.to_thread(one.communicate, timeout=120) for one in owners]
    assert [one.returncode for one in owners] == [0] * 8, outputs
    assert desk.started() == ["one"] * 8
    await desk.nothing_left()


async def test_a_gate_that_was_answered_while_nobody_ran_the_run(desk: Desk) -> None:
    gate = ReviewStep(id="gate")
    owner = desk.owner("run", desk.spec(gate, desk.command("after", needs=("gate",))))
    async with desk.control() as control:
        await until_step(control.store, "run", "gate", "waiting")
        kill(owner)
        assert await control.answer("run", "gate", APPROVE)
        await asyncio.to_thread(desk.finish, "run")
        assert control.look("run").status == "completed"
    assert owner.stdout
    owner.stdout.close()


def test_the_engine_prints_nothing_of_its_own(desk: Desk) -> None:
    output = desk.finish(
        "run", desk.spec(desk.command("one"), CommandStep(id="x", command="exit 1"))
    )
    assert output.splitlines() == ["failed x: the command ended with exit code 1"]
    words = [sys.executable, "-c", "import tillerman.pipelines.engine, sys; "
             "sys.exit('dbos' in sys.modules)"]  # fmt: skip
    assert subprocess.run(words, env=desk.environment).returncode == 0
