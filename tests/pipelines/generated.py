"""Generates pipelines that are valid, with every kind of step, nested and with graphs of needs."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from tillerman.pipelines.steps import (
    AgentJudge,
    AgentStep,
    BestOfStep,
    CommandJudge,
    CommandStep,
    GitEnd,
    Input,
    Limits,
    LoopStep,
    MapStep,
    ParallelStep,
    PersonJudge,
    Pipeline,
    ReviewStep,
    Step,
)

AGENTS = ("mock", "claude", "codex", "gemini")
_CHARS = st.characters(exclude_categories=("Cs", "Cc"), include_characters="\n\t")
TEXTS = st.text(_CHARS, min_size=1, max_size=40).filter(lambda text: text.strip())
PLAIN = TEXTS.filter(lambda text: "{{" not in text and text != "HUMAN_REVIEW")
LIMITS = st.builds(
    Limits,
    time=st.none() | st.integers(1, 10**6).map(float) | st.just(0.5),
    cost=st.none() | st.integers(1, 10**4).map(lambda cents: cents / 100),
    turns=st.none() | st.integers(1, 1000),
)
_EACH = st.lists(st.sampled_from(AGENTS), min_size=1, max_size=3, unique=True).map(tuple)


@st.composite
def pipelines(draw: st.DrawFn) -> Pipeline:
    return _Draw(draw).pipeline()


class _Draw:
    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw
        self._number = 0
        self.inputs = {f"in{number}": draw(_inputs()) for number in range(draw(st.integers(0, 3)))}

    def pipeline(self) -> Pipeline:
        draw = self._draw
        steps = self._level(0, ("run.id",))
        uses = " ".join(f"{{{{ inputs.{name} }}}}" for name in self.inputs)
        last = AgentStep(id="last", needs=(steps[-1].id,), agents=("mock",), prompt=f"All: {uses}")
        return Pipeline(
            name="case",
            description=draw(st.just("") | PLAIN),
            inputs=self.inputs,
            steps=(*steps, last),
            workspace=draw(st.sampled_from(("worktree", "shared"))),
            git=draw(st.none() | st.builds(GitEnd, commit=st.booleans())),
            limits=replace(draw(LIMITS), turns=None),
        )

    def _level(self, depth: int, names: tuple[str, ...]) -> tuple[Step, ...]:
        """Steps in any order, each needing some of those that were drawn before it."""
        steps: list[Step] = []
        for _ in range(self._draw(st.integers(1, 4 if depth == 0 else 2))):
            ids = [step.id for step in steps]
            needs = self._draw(st.lists(st.sampled_from(ids), unique=True)) if ids else []
            steps.append(self._step(tuple(needs), depth, names))
        return tuple(self._draw(st.permutations(steps)))

    def _step(self, needs: tuple[str, ...], depth: int, names: tuple[str, ...]) -> Step:
        draw = self._draw
        self._number += 1
        common: dict[str, Any] = {"id": f"s{self._number}", "needs": needs}
        kinds = [self._agent, self._command, self._review, self._best_of]
        if depth < 3:
            kinds += [self._parallel, self._loop, self._map]
        return draw(st.sampled_from(kinds))(common, depth, names)

    def _template(self, names: tuple[str, ...]) -> str:
        pieces = self._draw(
            st.lists(
                PLAIN | st.sampled_from(names).map("{{{{ {} }}}}".format), min_size=1, max_size=3
            )
        )
        text = "".join(pieces)
        return text if text.count("{{") == sum(one.startswith("{{ ") for one in pieces) else "x"

    def _command_text(self, names: tuple[str, ...]) -> str:
        return "echo " + " ".join(
            self._draw(st.lists(st.sampled_from(names).map("{{{{ {} }}}}".format), max_size=2))
        )

    def _agent_options(self, names: tuple[str, ...]) -> dict[str, Any]:
        draw = self._draw
        return {
            "prompt": self._template(names),
            "mode": draw(st.sampled_from((None, "agent", "plan", "ask"))),
            "model": draw(st.none() | PLAIN),
            "approve": draw(st.sampled_from((None, "ask", "edits", "auto", "readonly", "none"))),
            "tools": draw(st.booleans()),
            "interrupted": draw(st.sampled_from(("resume", "restart"))),
        }

    def _exits(self) -> tuple[int, ...]:
        return tuple(self._draw(st.lists(st.integers(0, 255), min_size=1, max_size=3, unique=True)))

    def _agent(self, common: dict[str, Any], depth: int, names: tuple[str, ...]) -> Step:
        common["limits"] = self._draw(LIMITS)
        return AgentStep(**common, agents=self._draw(_EACH), **self._agent_options(names))

    def _command(self, common: dict[str, Any], depth: int, names: tuple[str, ...]) -> Step:
        common["limits"] = Limits(time=self._draw(LIMITS).time)
        return CommandStep(**common, command=self._command_text(names), exits=self._exits())

    def _review(self, common: dict[str, Any], depth: int, names: tuple[str, ...]) -> Step:
        return ReviewStep(**common, message=self._draw(st.just("") | PLAIN))

    def _parallel(self, common: dict[str, Any], depth: int, names: tuple[str, ...]) -> Step:
        return ParallelStep(**common, steps=self._level(depth + 1, names))

    def _loop(self, common: dict[str, Any], depth: int, names: tuple[str, ...]) -> Step:
        inside = (*names, "loop.output")
        until = self._command_text(inside)
        most = self._draw(st.integers(1, 100))
        return LoopStep(**common, until=until, most=most, steps=self._level(depth + 1, inside))

    def _map(self, common: dict[str, Any], depth: int, names: tuple[str, ...]) -> Step:
        name = f"item_{self._number}"
        items = st.lists(PLAIN, min_size=1, max_size=3, unique=True).map(tuple)
        over = self._draw(items | st.sampled_from(names).map("{{{{ {} }}}}".format))
        width = self._draw(st.integers(1, 64))
        steps = self._level(depth + 1, (*names, name))
        return MapStep(**common, items=over, name=name, width=width, steps=steps)

    def _best_of(self, common: dict[str, Any], depth: int, names: tuple[str, ...]) -> Step:
        draw = self._draw
        ids = [f"{common['id']}-{number}" for number in (1, 2, 3)]
        attempts: tuple[AgentStep | CommandStep, ...]
        kind = draw(st.sampled_from(("run", "agent", "agents")))
        limits = common["limits"] = draw(LIMITS)
        if kind == "run":
            command, exits = self._command_text(names), self._exits()
            limits = common["limits"] = Limits(time=limits.time)
            attempts = tuple(
                CommandStep(id=id, command=command, exits=exits, limits=limits) for id in ids
            )
        else:
            options, agents = self._agent_options(names), draw(_EACH)
            each = [agents] * 3 if kind == "agent" else [(name,) for name in AGENTS[:3]]
            attempts = tuple(
                AgentStep(id=id, agents=one, limits=limits, **options)
                for id, one in zip(ids, each, strict=True)
            )
        judge = draw(
            st.just(CommandJudge("make test"))
            | st.builds(AgentJudge, agents=_EACH, prompt=st.just("") | PLAIN)
            | st.builds(PersonJudge, message=st.just("") | PLAIN)
        )
        return BestOfStep(**common, attempts=attempts, judge=judge)


@st.composite
def _inputs(draw: st.DrawFn) -> Input:
    kind = draw(st.sampled_from(("string", "integer", "number", "boolean", "list", "choice")))
    about = {"description": draw(st.just("") | PLAIN)}
    if kind == "choice":
        choices = tuple(draw(st.lists(PLAIN, min_size=1, max_size=3, unique=True)))
        return Input(**about, choices=choices, default=choices[0], required=False)
    defaults: dict[str, st.SearchStrategy[Any]] = {
        "string": st.text(_CHARS, max_size=20),
        "integer": st.integers(-(10**17), 10**17),
        "number": st.integers(-(10**6), 10**6).map(lambda value: value / 8),
        "boolean": st.booleans(),
        "list": st.lists(PLAIN, max_size=3, unique=True).map(tuple),
    }
    if draw(st.booleans()):
        return Input(**about, type=kind, default=draw(defaults[kind]), required=False)  # type: ignore[arg-type]
    return Input(**about, type=kind, required=draw(st.booleans()))  # type: ignore[arg-type]
