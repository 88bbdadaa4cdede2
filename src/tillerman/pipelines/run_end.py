"""Ends a run: sets its status, leaves one commit, removes its worktrees."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tillerman.pipelines.run_git import RESULT, RunGit
from tillerman.pipelines.run_state import RunSpec, RunStatus, StepResult

if TYPE_CHECKING:
    from tillerman.pipelines.workflows import Workflows


async def end_run(flows: Workflows, run: str, result: StepResult) -> None:
    worker = flows.worker

    async def end() -> None:
        spec = await worker.spec(run)
        git = await worker.git(run)
        await worker.close_run(run)
        commit = result.commit
        if git is not None:
            slots = await worker.blocking(worker.store.slots, run)
            await worker.blocking(git.remove_worktrees, slots)
            await worker.blocking(worker.store.drop_slots, run)
            if result.ok and commit:
                commit, note = await worker.blocking(_leave_commit, git, run, spec, commit)
                if note:
                    await worker.blocking(worker.store.log, run, "", note)
        await worker.blocking(
            worker.store.set_run, run, _status(result), error=result.error, commit=commit
        )

    await flows.step("end", end)


def _status(result: StepResult) -> RunStatus:
    if result.ok:
        return "completed"
    return "rejected" if result.rejected else "failed"


def _leave_commit(git: RunGit, run: str, spec: RunSpec, end: str) -> tuple[str, str]:
    """Returns the commit of the run, and a note for its log. Doing it again changes nothing."""
    wanted = spec.pipeline.git
    if wanted is None or not wanted.commit:
        git.publish(RESULT, end)
        return end, ""
    if not git.changed_files(spec.base, end):
        return spec.base, "nothing was changed, so there is no commit"
    message = f"Run {spec.pipeline.name}"
    if described := spec.pipeline.description.strip():
        message += f"\n\n{described}"
    shared = spec.pipeline.workspace == "shared"
    commit, why = git.leave_on_branch(spec.branch, spec.base, end, message, shared=shared)
    git.publish(RESULT, commit)
    if why:
        return (
            commit,
            f"{spec.branch or 'the detached HEAD'} was not moved: {why}; "
            f"run `git merge tillerman/{run}/{RESULT}`",
        )
    return commit, f"committed as {commit[:12]} on {spec.branch}"
