"""Runs, steps and gates as frozen data: what the run store holds and every surface shows."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from tillerman.pipelines.steps import Pipeline, Step

RunStatus = Literal["running", "waiting", "paused", "completed", "failed", "rejected", "killed"]
StepStatus = Literal[
    "running", "waiting", "completed", "failed", "rejected", "skipped", "cancelled", "interrupted"
]

ENDED: frozenset[RunStatus] = frozenset({"completed", "failed", "rejected", "killed"})


class StepResult(Struct, frozen=True, omit_defaults=True):
    """What a step leaves for later steps and for the run."""

    ok: bool
    text: str = ""  # an agent's last message, the end of a command's output, or a person's note
    error: str = ""  # why it is not ok
    commit: str = ""  # later steps begin from it; empty: no commit
    base: str = ""  # the commit that it began from
    files: tuple[str, ...] = ()  # changed paths, the first of them
    code: int | None = None  # exit code of a command
    agent: str = ""
    session: str = ""
    cost: float | None = None  # US dollars
    rejected: bool = False  # by a person
    limit: bool = False  # a limit was exceeded
    choice: str = ""  # the chosen candidate
    steps: dict[str, StepResult] = {}  # of a group of steps


class RunSpec(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """All that a run depends on. It does not change when files change."""

    pipeline: Pipeline
    inputs: dict[str, str | tuple[str, ...]] = {}
    folder: str  # where it was started
    repository: str = ""  # top of the work tree; empty: none
    base: str = ""  # commit that the steps begin from
    branch: str = ""  # that was checked out
    seeds: dict[str, StepResult] = {}  # results of steps that are not run again, by step id
    forked_from: str = ""


class Answer(Struct, frozen=True, omit_defaults=True):
    """What a person decided at a gate."""

    decision: Literal["approve", "reject"]
    text: str = ""  # the word of a rejection; an approval: replaces the account that was reviewed
    commit: str = ""  # an approval with edited files: later steps begin from this commit
    choice: str = ""  # the candidate of a best_of
    by: str = ""


class Run(Struct, frozen=True, omit_defaults=True, kw_only=True):
    id: str
    pipeline: str
    status: RunStatus
    folder: str
    started_at: float
    ended_at: float | None = None
    error: str = ""
    commit: str = ""
    cost: float | None = None
    forked_from: str = ""
    alive: bool = False  # a process runs it now


class StepRow(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The state of one step, iteration or candidate; `path` is its place: `loop/i2/fix`."""

    run: str
    path: str
    kind: str
    status: StepStatus
    started_at: float
    ended_at: float | None = None
    attempt: int = 1  # times it was started
    agent: str = ""
    session: str = ""
    cost: float | None = None
    last_line: str = ""
    commit: str = ""
    error: str = ""


class Gate(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A person must answer before the run continues."""

    run: str
    path: str
    message: str = ""
    account: str = ""  # what the steps before it reported
    commit: str = ""
    base: str = ""  # the diff from here to `commit` is under review
    choices: tuple[str, ...] = ()
    opened_at: float = 0.0
    answer: Answer | None = None


class LogLine(Struct, frozen=True):
    number: int
    at: float
    path: str
    text: str


def kind_of(step: Step) -> str:
    """The word for a kind of step, as in files."""
    return str(step.__struct_config__.tag)
