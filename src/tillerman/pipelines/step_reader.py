"""Steps from a pipeline file: each kind of step with its keys, types and defaults."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from tillerman.pipelines.document import File, Item, suggestion
from tillerman.pipelines.steps import (
    AgentJudge,
    AgentStep,
    BestOfStep,
    CommandJudge,
    CommandStep,
    Limits,
    LoopStep,
    MapStep,
    ParallelStep,
    PersonJudge,
    PipelineStep,
    ReviewStep,
    Step,
)

HUMAN_REVIEW = "HUMAN_REVIEW"
MODES = ("agent", "plan", "ask")
APPROVE = ("ask", "edits", "auto", "readonly", "none")
MOST_ATTEMPTS = 16
MOST_ITERATIONS = 100
WIDEST = 64
MOST_STEPS = 1_000
_ID = re.compile(r"[a-z][a-z0-9-]{0,63}")
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_PART = r"(?:([0-9]+(?:\.[0-9]+)?)%s)?"
_DURATION = re.compile("".join(_PART % unit for unit in "dhms"))
_COMMON = ("id", "needs", "limits")
_AGENT = ("agent", "prompt", "mode", "model", "approve", "tools", "interrupted")
_COMMAND = ("run", "exits")
_KEYS = {  # by the key that tells the kind of a step
    "agent": _AGENT,
    "run": _COMMAND,
    "review": ("review",),
    "parallel": ("parallel",),
    "best_of": ("best_of",),
    "loop": ("loop",),
    "map": ("map",),
    "pipeline": ("pipeline", "inputs"),
}
KINDS = tuple(_KEYS)
OF_A_RUN = ("time", "cost")
_LIMITS = {  # the other kinds have none
    "agent": ("time", "cost", "turns"),
    "run": ("time",),
    "best_of": ("time", "cost", "turns"),  # of each attempt, and of the judge
}
STEP_KEYS = (*_COMMON, *dict.fromkeys(key for keys in _KEYS.values() for key in keys))

Place = tuple[str, str]  # step id and key: where a template, a name or an id was read


class StepReader:
    """Reads the steps of one file, and keeps where each part stands for the checks after it."""

    def __init__(self, file: File) -> None:
        self._file = file
        self.places: dict[Place, Item] = {}
        self.ids: dict[str, Item] = {}

    def steps(self, item: Item, what: str, *, together: bool = False) -> tuple[Step, ...]:
        """`together`: a step without `needs` waits for none, instead of the one before it."""
        found: list[Step] = []
        for entry in self._file.list(item, what):
            before = () if together or not found else (found[-1].id,)
            found.append(self._step(entry, before))
        return tuple(found)

    def add(self, id: str, item: Item) -> None:
        """An id, each once in a file."""
        if not _ID.fullmatch(id):
            problem = f"{_short(id)!r} is not a valid id"
            hint = "use small letters, digits and `-`, a letter first, at most 64"
            raise self._file.wrong(item, problem, hint)
        if id in self.ids:
            line = self.ids[id].line
            raise self._file.wrong(item, f"the id {id!r} is also in line {line}", "rename one")
        if len(self.ids) >= MOST_STEPS:
            raise self._file.wrong(item, f"more than {MOST_STEPS:,} steps", "use `map`")
        self.ids[id] = item

    def _step(self, item: Item, before: tuple[str, ...]) -> Step:
        table = self._file.table(item, "a step")
        kind = self._kind(item, table)
        if "id" not in table:
            raise self._file.wrong(item, "a step without an id", f"add `id: my-{_dashed(kind)}`")
        id = self._file.text(table["id"], "id")
        self.add(id, table["id"])
        known = (*_COMMON, *_KEYS[kind])
        for key, value in table.items():
            if key in known:
                continue
            if key in STEP_KEYS:
                problem = f"{key!r} does not belong to a step with {kind!r}"
                raise self._file.wrong(value, problem, f"known: {', '.join(known)}")
            raise self._file.wrong(value, f"unknown key {key!r} in a step", suggestion(key, known))
        common: dict[str, Any] = {
            "id": id,
            "needs": self._needs(id, table, before),
            "limits": self._limits(kind, table.get("limits")),
        }
        build: Callable[[Mapping[str, Item], dict[str, Any]], Step] = getattr(self, f"_{kind}")
        return build(table, common)

    def _kind(self, item: Item, table: Mapping[str, Item]) -> str:
        kinds = [key for key in table if key in _KEYS]
        if len(kinds) == 1:
            return kinds[0]
        if len(kinds) > 1:
            problem = f"a step with both {kinds[0]!r} and {kinds[1]!r}"
            raise self._file.wrong(table[kinds[1]], problem, "make it two steps")
        for key, value in table.items():
            if key not in STEP_KEYS:
                hint = suggestion(key, STEP_KEYS, f"a step has one of: {', '.join(_KEYS)}")
                raise self._file.wrong(value, f"unknown key {key!r} in a step", hint)
        hint = f"add one of: {', '.join(_KEYS)}"
        raise self._file.wrong(item, "a step that says nothing to do", hint)

    def _needs(
        self, id: str, table: Mapping[str, Item], before: tuple[str, ...]
    ) -> tuple[str, ...]:
        if "needs" not in table:
            return before
        item = self.places[id, "needs"] = table["needs"]
        if item.value == ():
            return ()
        return self._file.texts(item, "needs")

    def _limits(self, kind: str, item: Item | None) -> Limits:
        if item is not None and kind not in _LIMITS:
            hint = "limit the steps inside of it, or the pipeline"
            raise self._file.wrong(item, f"a step with {kind!r} has no limits", hint)
        return limits(self._file, item, _LIMITS.get(kind, ()), f"a step with {kind!r}")

    # -- kinds ------------------------------------------------------------------------------------

    def _agent(self, table: Mapping[str, Item], common: dict[str, Any]) -> AgentStep:
        id = common["id"]
        self.places[id, "agent"] = table["agent"]
        agents = self._file.texts(table["agent"], "agent")
        return AgentStep(**common, agents=agents, **self._agent_options(id, table))

    def _agent_options(self, id: str, table: Mapping[str, Item]) -> dict[str, Any]:
        file = self._file
        if "prompt" not in table:
            where = table.get("agent") or table["attempts"]
            raise file.wrong(where, "an agent without a prompt", "add `prompt: …`")
        options: dict[str, Any] = {"prompt": self._template(id, "prompt", table["prompt"])}
        for key, known in (
            ("mode", MODES), ("approve", APPROVE), ("interrupted", ("resume", "restart")),
        ):  # fmt: skip
            if key in table:
                options[key] = file.choice(table[key], key, known)
        if "model" in table:
            options["model"] = file.text(table["model"], "model")
        if "tools" in table:
            options["tools"] = file.flag(table["tools"], "tools")
        return options

    def _run(self, table: Mapping[str, Item], common: dict[str, Any]) -> CommandStep:
        command = self._template(common["id"], "run", table["run"])
        return CommandStep(**common, command=command, **self._exits(table))

    def _exits(self, table: Mapping[str, Item]) -> dict[str, Any]:
        if "exits" not in table:
            return {}
        item = table["exits"]
        entries = (item,) if isinstance(item.value, int) else self._file.list(item, "exits")
        codes = [self._file.whole(entry, "an exit code", 0, 255) for entry in entries]
        return {"exits": tuple(dict.fromkeys(codes))}

    def _review(self, table: Mapping[str, Item], common: dict[str, Any]) -> ReviewStep:
        return ReviewStep(**common, message=self._message(common["id"], table["review"]))

    def _message(self, id: str, item: Item) -> str:
        text = self._template(id, "review", item)
        return "" if text == HUMAN_REVIEW else text

    def _parallel(self, table: Mapping[str, Item], common: dict[str, Any]) -> ParallelStep:
        steps = self.steps(table["parallel"], "parallel", together=True)
        return ParallelStep(**common, steps=steps)

    def _loop(self, table: Mapping[str, Item], common: dict[str, Any]) -> LoopStep:
        known = ("until", "most", "steps")
        body = self._body(table["loop"], "loop", known, needed=("until", "steps"))
        until = self._template(common["id"], "until", body["until"])
        if "most" in body:
            common["most"] = self._file.whole(body["most"], "most", 1, MOST_ITERATIONS)
        return LoopStep(**common, until=until, steps=self.steps(body["steps"], "the loop's steps"))

    def _map(self, table: Mapping[str, Item], common: dict[str, Any]) -> MapStep:
        known = ("over", "as", "width", "steps")
        body = self._body(table["map"], "map", known, needed=("over", "steps"))
        if "as" in body:
            name = self._file.text(body["as"], "as")
            if not _NAME.fullmatch(name):
                hint = "use small letters, digits and `_`, a letter first"
                raise self._file.wrong(body["as"], f"{_short(name)!r} is not a valid name", hint)
            common["name"] = name
            self.places[common["id"], "as"] = body["as"]
        if "width" in body:
            common["width"] = self._file.whole(body["width"], "width", 1, WIDEST)
        items = self._over(common["id"], body["over"])
        return MapStep(**common, items=items, steps=self.steps(body["steps"], "the map's steps"))

    def _over(self, id: str, item: Item) -> tuple[str, ...] | str:
        if not isinstance(item.value, tuple):
            return self._template(id, "over", item)
        self.places[id, "over"] = item
        items = self._file.texts(item, "over")
        for entry, text in zip(item.value, items, strict=True):
            if "{{" in text:
                hint = 'make all of it one template: `over: "{{ … }}"`'
                raise self._file.wrong(entry, "a template inside of a list of items", hint)
        return items

    def _pipeline(self, table: Mapping[str, Item], common: dict[str, Any]) -> PipelineStep:
        id = common["id"]
        self.places[id, "pipeline"] = table["pipeline"]
        name = self._file.text(table["pipeline"], "pipeline")
        inputs: dict[str, str] = {}
        if "inputs" in table:
            for key, item in self._file.table(table["inputs"], "inputs").items():
                self.places[id, f"inputs.{key}"] = item
                inputs[key] = self._given(item, key)
        return PipelineStep(**common, pipeline=name, inputs=inputs)

    def _given(self, item: Item, key: str) -> str:
        match item.value:
            case bool():
                return "true" if item.value else "false"
            case int() | float():
                return str(item.value)
            case _:
                return self._file.text(item, f"input {key}", empty=True)

    def _best_of(self, table: Mapping[str, Item], common: dict[str, Any]) -> BestOfStep:
        id, file, given = common["id"], self._file, table.get("limits")
        known = ("attempts", "judge", *_AGENT, *_COMMAND)
        item = table["best_of"]
        body = file.table(item, "best_of")
        for gate in ("review", "parallel", "best_of", "loop", "map", "pipeline", "steps"):
            if gate in body:
                problem = f"{gate!r} cannot be an attempt of best_of"
                raise file.wrong(body[gate], problem, "an attempt is an `agent` or a `run`")
        body = self._body(item, "best_of", known, needed=("attempts", "judge"))
        if ("agent" in body or isinstance(body["attempts"].value, tuple | str)) and "run" in body:
            raise file.wrong(body["run"], "an attempt with both 'agent' and 'run'", "remove one")
        if "run" in body:
            self._limits("run", given)
        attempts = tuple(replace(one, limits=common["limits"]) for one in self._attempts(id, body))
        for number, attempt in enumerate(attempts, 1):
            if attempt.id in self.ids:
                problem = f"the id {attempt.id!r} is that of attempt {number} of {id!r}"
                raise file.wrong(self.ids[attempt.id], problem, "rename the step")
            self.add(attempt.id, self.ids[id])
        return BestOfStep(**common, attempts=attempts, judge=self._judge(id, body["judge"]))

    def _attempts(self, id: str, body: Mapping[str, Item]) -> tuple[AgentStep | CommandStep, ...]:
        file, item = self._file, body["attempts"]
        self.places[id, "agent"] = body.get("agent", item)
        if isinstance(item.value, tuple):
            if "agent" in body:
                problem = "attempts that name agents, and an agent"
                raise file.wrong(body["agent"], problem, "remove one of them")
            each: list[tuple[str, ...]] = [(name,) for name in file.texts(item, "attempts")]
            if len(each) == 1:
                raise file.wrong(item, "best_of with one attempt", "name two agents or more")
        else:
            count = file.whole(item, "attempts", 2, MOST_ATTEMPTS)
            if "run" in body:
                command = self._template(id, "run", body["run"])
                self._only(body, ("attempts", "judge", *_COMMAND), "best_of with a command")
                return tuple(
                    CommandStep(id=f"{id}-{number}", command=command, **self._exits(body))
                    for number in range(1, count + 1)
                )
            if "agent" not in body:
                raise file.wrong(item, "best_of without an agent", "add `agent: NAME`")
            each = [file.texts(body["agent"], "agent")] * count
        self._only(body, ("attempts", "judge", *_AGENT), "best_of with agents")
        options = self._agent_options(id, body)
        return tuple(
            AgentStep(id=f"{id}-{number}", agents=agents, **options)
            for number, agents in enumerate(each, 1)
        )

    def _only(self, body: Mapping[str, Item], known: tuple[str, ...], what: str) -> None:
        for key, item in body.items():
            if key not in known:
                hint = f"known: {', '.join(known)}"
                raise self._file.wrong(item, f"{key!r} does not belong to {what}", hint)

    def _judge(self, id: str, item: Item) -> CommandJudge | AgentJudge | PersonJudge:
        file = self._file
        table = file.table(item, "judge", ("run", "agent", "prompt", "review"))
        kinds = [key for key in table if key != "prompt"]
        if len(kinds) != 1:
            problem = f"a judge must be one of run, agent and review, not {len(kinds)}"
            raise file.wrong(item, problem, "write `judge: {run: COMMAND}`")
        if "prompt" in table and kinds != ["agent"]:
            raise file.wrong(table["prompt"], "a prompt for no agent", "remove it")
        value = table[kinds[0]]
        if kinds == ["run"]:
            return CommandJudge(self._template(id, "judge.run", value))
        if kinds == ["review"]:
            text = self._template(id, "judge.review", value)
            return PersonJudge("" if text == HUMAN_REVIEW else text)
        self.places[id, "judge.agent"] = value
        prompt = self._template(id, "judge.prompt", table["prompt"]) if "prompt" in table else ""
        return AgentJudge(file.texts(value, "agent"), prompt)

    def _body(
        self, item: Item, what: str, known: tuple[str, ...], needed: tuple[str, ...]
    ) -> Mapping[str, Item]:
        body = self._file.table(item, what, known)
        for key in needed:
            if key not in body:
                raise self._file.wrong(item, f"{what} without {key!r}", f"add `{key}: …`")
        return body

    def _template(self, id: str, key: str, item: Item) -> str:
        self.places[id, key] = item
        return self._file.text(item, key.rpartition(".")[2])


def limits(file: File, item: Item | None, known: tuple[str, ...], what: str) -> Limits:
    """`known`: those that are enforced there; the others would be ignored."""
    if item is None:
        return Limits()
    table = file.table(item, "limits", ("time", "cost", "turns"))
    values: dict[str, Any] = {}
    if "time" in table:
        values["time"] = duration(file, table["time"])
    if "cost" in table:
        values["cost"] = _positive(file, table["cost"], "cost", "write US dollars, such as 0.5")
    if "turns" in table:
        values["turns"] = file.whole(table["turns"], "turns", 1, 1_000_000)
    for key, value in table.items():
        if key not in known:
            problem = f"{what} has no limit of {key}"
            raise file.wrong(value, problem, f"known: {', '.join(known)}")
    return Limits(**values)


def duration(file: File, item: Item) -> float:
    """Seconds, of a number or a text such as "1h30m"."""
    hint = "write seconds, or a text such as 90s, 10m, 1h30m"
    if not isinstance(item.value, str):
        return _positive(file, item, "time", hint)
    found = _DURATION.fullmatch(item.value.strip())
    if found is None or not any(found.groups()) or len(item.value) > 40:
        raise file.wrong(item, f"{_short(item.value)!r} is not a duration", hint)
    units = zip(found.groups(), (86_400, 3_600, 60, 1), strict=True)
    seconds = sum(float(number) * unit for number, unit in units if number)
    if not 0 < seconds <= 366 * 86_400:
        raise file.wrong(item, "a time limit must be more than 0, and at most a year", hint)
    return seconds


def _positive(file: File, item: Item, what: str, hint: str) -> float:
    value = item.value
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9:
        shown = repr(_short(value)) if isinstance(value, str) else item.kind
        raise file.wrong(item, f"{what} must be a number greater than 0, not {shown}", hint)
    return float(value)


def _dashed(kind: str) -> str:
    return kind.replace("_", "-")


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:40]}…"
