"""The names that a template may use, by the kind of step that has the value."""

from __future__ import annotations

from tillerman.pipelines.steps import (
    AgentStep,
    BestOfStep,
    CommandStep,
    LoopStep,
    MapStep,
    ParallelStep,
    PipelineStep,
    ReviewStep,
    Step,
)

# text: an agent's final message, or a person's words at a gate; of steps inside others, the last
# output: what a command wrote, stdout and stderr; exit: its exit code
# diff: what the step changed, as git shows it; files: the names of the files, as a list
RESULTS: dict[type[Step], tuple[str, ...]] = {
    AgentStep: ("text", "diff", "files"),
    CommandStep: ("output", "exit", "diff", "files"),
    ReviewStep: ("text",),
    ParallelStep: ("diff", "files"),
    BestOfStep: ("text", "output", "diff", "files"),
    LoopStep: ("output", "diff", "files"),
    MapStep: ("text", "diff", "files"),
    PipelineStep: ("text", "diff", "files"),
}
LISTS = frozenset({"files"})
RUN = ("run.id",)
LOOP = ("loop.output", "loop.iteration")
RESERVED = frozenset({"inputs", "steps", "run", "loop"})
