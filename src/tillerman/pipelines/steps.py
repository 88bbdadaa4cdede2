"""A pipeline and its steps as frozen data: what a pipeline file says, validated and complete.

`definition.py` builds these from a file. The engine takes them as its input, so that a change of
the file never touches a run that has begun. Ids, those of attempts too, are unique in a pipeline
and match `[a-z][a-z0-9-]{0,63}`. `needs` is always explicit here, names steps of the same list and
forms no cycle: a step that names none in the file needs the one before it (in `parallel`: none).
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class Limits(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    time: float | None = None  # seconds
    cost: float | None = None  # USD
    turns: int | None = None


class Input(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    description: str = ""
    type: Literal["string", "integer", "number", "boolean", "list"] = "string"
    default: str | int | float | bool | tuple[str, ...] | None = None
    required: bool = True  # false if there is a default
    choices: tuple[str, ...] = ()


class _Step(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    id: str
    needs: tuple[str, ...] = ()
    limits: Limits = Limits()


class AgentStep(_Step, frozen=True, tag="agent", kw_only=True):
    """One prompt to an agent, in a session of its own."""

    agents: tuple[str, ...]  # profiles or agent ids: the first, then its fallbacks
    prompt: str  # a template over inputs, earlier results and changed files
    mode: Literal["agent", "plan", "ask"] | None = None
    model: str | None = None
    approve: Literal["ask", "edits", "auto", "readonly", "none"] | None = None
    tools: bool = False  # the workspace tools
    interrupted: Literal["resume", "restart"] = "resume"  # the session, or in a clean worktree


class CommandStep(_Step, frozen=True, tag="run", kw_only=True):
    """A shell command. It passes if its exit code is one of `exits`."""

    command: str  # a template
    exits: tuple[int, ...] = (0,)


class ReviewStep(_Step, frozen=True, tag="review", kw_only=True):
    """A gate: the run waits until a person approves, rejects with a word, or edits."""

    message: str = ""


class ParallelStep(_Step, frozen=True, tag="parallel", kw_only=True):
    """Steps that form a graph of their own; those without needs start together."""

    steps: tuple[Step, ...]


class CommandJudge(Struct, frozen=True, forbid_unknown_fields=True, tag="run"):
    """Runs in each candidate's worktree: the first that passes wins, or the highest `score:`."""

    command: str


class AgentJudge(Struct, frozen=True, forbid_unknown_fields=True, tag="agent", omit_defaults=True):
    agents: tuple[str, ...]
    prompt: str = ""


class PersonJudge(
    Struct, frozen=True, forbid_unknown_fields=True, tag="review", omit_defaults=True
):
    message: str = ""


class BestOfStep(_Step, frozen=True, tag="best_of", kw_only=True):
    """Attempts in worktrees of their own; a judge chooses the one whose commit is kept."""

    attempts: tuple[AgentStep | CommandStep, ...]  # with the ids ID-1, ID-2, …
    judge: CommandJudge | AgentJudge | PersonJudge


class LoopStep(_Step, frozen=True, tag="loop", kw_only=True):
    """Repeats its steps until a command passes; its failing output is `{{ loop.output }}`."""

    steps: tuple[Step, ...]
    until: str  # a command
    most: int = 5  # iterations


class MapStep(_Step, frozen=True, tag="map", kw_only=True):
    """Its steps, once for each item, with `{{ NAME }}` as the item."""

    items: tuple[str, ...] | str  # a list, or a template that gives one item per line
    name: str = "item"
    steps: tuple[Step, ...]
    width: int = 4  # items at the same time


class PipelineStep(_Step, frozen=True, tag="pipeline", kw_only=True):
    """Another pipeline, resolved when the run starts."""

    pipeline: str
    inputs: dict[str, str] = {}  # templates


Step = (
    AgentStep
    | CommandStep
    | ReviewStep
    | ParallelStep
    | BestOfStep
    | LoopStep
    | MapStep
    | PipelineStep
)


class GitEnd(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What is left of a run when it ends well."""

    commit: bool = True  # one commit on the branch that the run began from


class Pipeline(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    name: str
    description: str = ""
    inputs: dict[str, Input] = {}
    steps: tuple[Step, ...]
    workspace: Literal["worktree", "shared"] = "worktree"
    git: GitEnd | None = None
    limits: Limits = Limits()
    # by name: all that its steps call, directly or through each other; empty in those themselves
    called: dict[str, Pipeline] = {}
