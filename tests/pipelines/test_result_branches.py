"""The branch that a run began from: it is moved only where no files are lost."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

from tests.pipelines.run_desk import APPROVE, Desk, kill, until_step
from tillerman.pipelines.engine import Engine
from tillerman.pipelines.run_state import Run, RunSpec
from tillerman.pipelines.steps import ReviewStep


def gated(desk: Desk) -> RunSpec:
    return desk.spec(ReviewStep(id="gate"), desk.command("change", needs=("gate",)))


async def at_gate(engine: Engine, spec: RunSpec) -> None:
    await engine.start("run", spec)
    await until_step(engine.store, "run", "gate", "waiting")


async def approved(engine: Engine) -> tuple[Run, str]:
    """Returns the run at its end, and the last line of its log."""
    assert await engine.answer("run", "gate", APPROVE)
    ended = await asyncio.wait_for(engine.wait("run"), 60)
    return ended, engine.store.log_lines("run")[-1].text


async def test_a_branch_that_another_work_tree_has_now_is_not_moved(
    desk: Desk, engine: Engine, tmp_path: Path
) -> None:
    await at_gate(engine, gated(desk))
    before = desk.git("rev-parse", "main")
    other = tmp_path / "other tree"
    desk.git("switch", "-q", "-c", "side")
    desk.git("worktree", "add", "-q", str(other), "main")
    ended, line = await approved(engine)
    assert ended.status == "completed"
    assert line == (
        f"main was not moved: it is checked out in {other}; run `git merge tillerman/run/RESULT`"
    )
    assert desk.git("rev-parse", "main") == before
    assert desk.git("-C", str(other), "status", "--porcelain") == ""
    assert desk.git("show", "tillerman/run/RESULT:change.txt") == "change"


async def test_a_branch_that_is_checked_out_nowhere_is_moved(desk: Desk, engine: Engine) -> None:
    await at_gate(engine, gated(desk))
    desk.git("switch", "-q", "-c", "side")
    _, line = await approved(engine)
    assert line.endswith(" on main")
    assert desk.git("show", "main:change.txt") == "change"


async def test_a_branch_that_was_deleted_or_renamed_is_named(desk: Desk, engine: Engine) -> None:
    await at_gate(engine, gated(desk))
    desk.git("branch", "-m", "main", "trunk")
    ended, line = await approved(engine)
    assert ended.status == "completed"
    assert line.startswith("main was not moved: it was deleted or renamed; run `git merge ")


async def test_files_that_are_not_committed_are_kept(desk: Desk, engine: Engine) -> None:
    await at_gate(engine, gated(desk))
    (desk.project / "change.txt").write_text("mine\n")
    _, line = await approved(engine)
    assert "files there would be overwritten that are not committed" in line
    assert (desk.project / "change.txt").read_text() == "mine\n"


async def test_a_deleted_run_leaves_no_output(desk: Desk, engine: Engine) -> None:
    spec = desk.spec(desk.command("secret"))
    await engine.start("run", spec)
    await asyncio.wait_for(engine.wait("run"), 60)
    assert engine.output("run", "secret")
    await engine.forget(["run", "run"])
    assert not [file for file in desk.paths.state.glob("pipelines/**/*") if "run" in file.parts]


async def test_a_run_whose_repository_was_removed_ends_and_can_be_deleted(
    desk: Desk, engine: Engine
) -> None:
    await at_gate(engine, gated(desk))
    shutil.rmtree(desk.project)
    assert await engine.answer("run", "gate", APPROVE)
    ended = await asyncio.wait_for(engine.wait("run"), 60)
    assert ended.status == "failed"
    await engine.forget(["run"])
    assert engine.store.run("run") is None
    assert not [path for path in desk.paths.worktrees.glob("*/*") if path.is_dir()]


async def test_a_run_that_cannot_leave_its_result_fails_and_says_why(
    desk: Desk, engine: Engine
) -> None:
    """An error at the very end must not leave the run without an end."""
    await at_gate(engine, gated(desk))
    desk.git("update-ref", "refs/heads/tillerman/run/RESULT/taken", "main")
    assert await engine.answer("run", "gate", APPROVE)
    ended = await asyncio.wait_for(engine.wait("run"), 60)
    assert ended.status == "failed"
    assert "RESULT" in ended.error


async def test_a_run_whose_repository_was_removed_can_be_killed(desk: Desk) -> None:
    async with desk.control() as control:
        owner = desk.owner("run", gated(desk))
        await until_step(control.store, "run", "gate", "waiting")
        kill(owner)
        shutil.rmtree(desk.project)
        await control.control("run", "killed")
        assert control.look("run").status == "killed"
    assert owner.stdout
    owner.stdout.close()
