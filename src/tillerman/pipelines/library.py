"""The pipelines of a project and a user: found by name or path, checked, with those they call.

A project's files count only if the user trusted them, as its profiles do. To check or draw a
pipeline runs nothing, so that this is allowed before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from tillerman.config import Config
from tillerman.config.definition_files import DefinitionFile, definition_files
from tillerman.config.project_trust import project_folder, trust_state
from tillerman.core.errors import ConfigError, PipelineFileError, UsageError
from tillerman.pipelines.call_checks import check_call
from tillerman.pipelines.definition import Definition, read_definition, stem_of
from tillerman.pipelines.document import LARGEST, SUFFIXES, suggestion
from tillerman.pipelines.graph_checks import every_step
from tillerman.pipelines.steps import AgentJudge, AgentStep, BestOfStep, Pipeline, PipelineStep

FOLDER = "pipelines"
DEEPEST = 16  # pipelines that call each other
_WHOLE = ("acp:", "replay:")  # a command line or a path in place of a name


class ListedPipeline(Struct, frozen=True):
    name: str
    path: str
    layer: Literal["project", "user"] | None  # None: given by its path
    description: str = ""
    problem: str = ""  # why it cannot be run; empty if it can
    hint: str = ""
    line: int = 0  # of the problem
    steps: int = 0  # those inside of others too


class Library:
    """What `cwd` can see. Files and agents are looked up once."""

    def __init__(self, config: Config, cwd: Path, *, checked: bool = True) -> None:
        """`checked`: only files that the user trusted; False to check or draw others."""
        self._config = config
        self._cwd = cwd
        self._checked = checked
        self._files: dict[str, DefinitionFile] | None = None
        self._agents: Mapping[str, str] | None = None
        self._read: dict[str, Definition] = {}

    def load(self, name: str) -> Pipeline:
        """A pipeline by name or path, complete: what it calls is in `called`.

        Raises PipelineFileError, ConfigError for a file that is not trusted, or UsageError.
        """
        definition = self._by_path(Path(name)) if _is_path(name) else self._by_name(name)
        called: dict[str, Pipeline] = {}
        self._resolve(definition, (definition.pipeline.name,), called)
        return msgspec.structs.replace(definition.pipeline, called=called)

    def listed(self) -> Sequence[ListedPipeline]:
        """All pipelines, sorted by name, whether they can be run or not."""
        return [self.looked_at(name) for name in self.names()]

    def names(self) -> list[str]:
        return sorted(self._all())

    def looked_at(self, name: str) -> ListedPipeline:
        """A pipeline by name or path; its first problem instead of an error."""
        file = None if _is_path(name) else self._all().get(name)
        stem, path = (file.name, file.path) if file else (stem_of(name), name)
        layer = file.layer if file else None
        try:
            pipeline = self.load(name)
        except (ConfigError, UsageError) as error:
            line = error.line if isinstance(error, PipelineFileError) else 0
            return ListedPipeline(
                stem, path, layer, problem=error.message, hint=error.hint, line=line
            )
        count = len(list(every_step(pipeline.steps)))
        return ListedPipeline(stem, path, layer, pipeline.description.strip(), steps=count)

    # -- files ------------------------------------------------------------------------------------

    def _all(self) -> dict[str, DefinitionFile]:
        """The effective file of each name: a file that may be read, the project's first."""
        if self._files is None:
            self._files = {}
            found = definition_files(
                self._config.paths, self._cwd, FOLDER, SUFFIXES, LARGEST, checked=self._checked
            )
            for file in found:
                known = self._files.get(file.name)
                if known and known.data is not None and known.layer == file.layer:
                    raise ConfigError(
                        f"{file.path}: {known.path} has the same name",
                        hint="rename one of the two files",
                    )
                if known is None or (known.data is None and file.data is not None):
                    self._files[file.name] = file
        return self._files

    def _by_name(self, name: str) -> Definition:
        file = self._all().get(name)
        if file is None:
            known = self.names()
            otherwise = "" if known else "`tillerman init` writes the first ones"
            hint = suggestion(name, known, otherwise)
            raise UsageError(f"there is no pipeline {name!r}", hint=hint)
        if file.data is None:
            raise ConfigError(f"{file.path}: {file.problem}", hint=file.hint)
        return self._definition(file.data, file.path)

    def _by_path(self, path: Path) -> Definition:
        if path.suffix not in SUFFIXES:
            hint = f"give a file that ends in {', '.join(SUFFIXES)}"
            raise UsageError(f"{path} is not a pipeline file", hint=hint)
        self._check_trust(path)
        try:
            with path.open("rb") as opened:
                data = opened.read(LARGEST + 1)
        except OSError as error:
            hint = "check the path; `tillerman pipeline check` without one checks all"
            raise UsageError(f"{path} cannot be read: {error.strerror}", hint=hint) from None
        return self._definition(data, str(path))

    def _check_trust(self, path: Path) -> None:
        """A path is no way around the trust in the project that the file is of."""
        if not self._checked:
            return
        project = project_folder(self._config.paths, path.resolve().parent)
        if project is None or project.path.resolve() not in path.resolve().parents:
            return
        if trust_state(self._config.paths, project) != "trusted":
            problem = f"{path}: the .tillerman/ that it lies in is not trusted as it is now"
            raise ConfigError(problem, hint="review it, then run `tillerman trust`")

    def _definition(self, data: bytes, path: str) -> Definition:
        if path not in self._read:
            found = read_definition(data, path)
            self._check_agents(found)
            self._read[path] = found
        return self._read[path]

    # -- what a file names ------------------------------------------------------------------------

    def _resolve(
        self, caller: Definition, chain: tuple[str, ...], called: dict[str, Pipeline]
    ) -> None:
        for step in every_step(caller.pipeline.steps):
            if not isinstance(step, PipelineStep):
                continue
            at = caller.places[step.id, "pipeline"]
            name = step.pipeline
            if name in chain:
                shown = " → ".join([*chain[chain.index(name) :], name])
                hint = "use `loop` to repeat steps"
                raise caller.file.wrong(at, f"pipelines call each other: {shown}", hint)
            if len(chain) >= DEEPEST:
                problem = f"pipelines call each other more than {DEEPEST} deep"
                raise caller.file.wrong(at, problem, "use fewer")
            callee = self._called(caller, step)
            check_call(caller, step, callee.pipeline)
            if name not in called:
                self._resolve(callee, (*chain, name), called)
                called[name] = callee.pipeline

    def _called(self, caller: Definition, step: PipelineStep) -> Definition:
        at = caller.places[step.id, "pipeline"]
        file = self._all().get(step.pipeline)
        if file is None:
            known = self.names()
            otherwise = "" if known else "there is no other pipeline here"
            hint = suggestion(step.pipeline, known, otherwise)
            raise caller.file.wrong(at, f"there is no pipeline {step.pipeline!r}", hint)
        if file.data is None:
            raise caller.file.wrong(at, f"pipeline {step.pipeline!r}: {file.problem}", file.hint)
        return self._definition(file.data, file.path)

    def _check_agents(self, definition: Definition) -> None:
        for id, key, agents in _agents(definition.pipeline):
            item = definition.places[id, key]
            entries = item.value if isinstance(item.value, tuple) else (item,) * len(agents)
            for name, at in zip(agents, entries, strict=False):
                if name.startswith(_WHOLE):
                    continue
                known = self._known_agents()
                if name not in known:
                    hint = suggestion(name, known, "`tillerman agents` lists agents and profiles")
                    problem = f"there is no agent and no profile {name!r}"
                    raise definition.file.wrong(at, problem, hint)
                if known[name]:
                    problem = f"profile {name!r} cannot be used: {known[name]}"
                    raise definition.file.wrong(at, problem, "fix the profile")

    def _known_agents(self) -> Mapping[str, str]:
        """Agents and profiles by name, with the problem of those that cannot be used."""
        if self._agents is None:
            from tillerman.agents import available
            from tillerman.config.profiles import InvalidProfile, profiles

            config = self._config
            found = profiles(config.paths, self._cwd, checked=self._checked)
            self._agents = {
                one.name: f"{one.path}: {one.problem}" if isinstance(one, InvalidProfile) else ""
                for one in found
            } | dict.fromkeys(available(config.agents, experimental=config.experimental_agents), "")
        return self._agents


def _is_path(name: str) -> bool:
    return "/" in name or name.endswith(SUFFIXES)


def _agents(pipeline: Pipeline) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Step id, key and names of each place that names agents."""
    for step in every_step(pipeline.steps):
        if isinstance(step, AgentStep):
            yield step.id, "agent", step.agents
        elif isinstance(step, BestOfStep):
            named = [one.agents for one in step.attempts if isinstance(one, AgentStep)]
            yield step.id, "agent", tuple(dict.fromkeys(name for one in named for name in one))
            if isinstance(step.judge, AgentJudge):
                yield step.id, "judge.agent", step.judge.agents
