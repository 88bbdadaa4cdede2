"""Merges the commits of parallel steps; a conflict opens a gate."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from tillerman.pipelines.flow_specs import FlowSpec, GateSpec
from tillerman.pipelines.workflows import Workflows

MERGE = "MERGE"  # name of the gate, below the step that needs the merge


class MergeOutcome(Struct, frozen=True, omit_defaults=True):
    commit: str
    commits: tuple[str, ...]
    conflicts: tuple[str, ...] = ()


async def merge_step(flows: Workflows, run: str, commits: Sequence[str]) -> MergeOutcome:
    git = await flows.worker.git(run)
    assert git

    async def merge() -> MergeOutcome:
        merged = await flows.worker.blocking(git.merge, commits)
        return MergeOutcome(merged.commit, tuple(commits), merged.conflicts)

    return msgspec.convert(await flows.step("merge", merge), MergeOutcome)


def merge_gate(parent: FlowSpec, path: str, outcome: MergeOutcome) -> GateSpec:
    """The gate at which a person gives the commit that merges the others."""
    files = "\n".join(outcome.conflicts)
    commands = "\n".join(
        [f"git checkout -b merge-{parent.run} {outcome.commits[0]}"]
        + [f"git merge {commit}" for commit in outcome.commits[1:]]
    )
    return GateSpec(
        run=parent.run,
        path=f"{path}/{MERGE}" if path else MERGE,
        parent=parent.id,
        message=(
            "Parallel steps changed the same files. Merge their commits, then approve with "
            f"--commit merge-{parent.run}"
        ),
        account=f"Conflicts:\n{files}\n\nCommands:\n{commands}",
    )
