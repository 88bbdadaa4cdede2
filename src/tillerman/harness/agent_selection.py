"""Selects agents from names, an ordered list, a profile, or a model name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tillerman import agents
from tillerman.config import Config
from tillerman.config.project_trust import FOLDER, find_project
from tillerman.core.errors import UsageError

if TYPE_CHECKING:
    from tillerman.config.profiles import Profile

_WHOLE = (agents.AD_HOC, "replay:")  # a command line or a path, which may contain commas


class AgentSelection(NamedTuple):
    names: tuple[str, ...]  # of agents; at least one
    profile: Profile | None = None
    substitutes: tuple[str, ...] = ()  # other agents that offer the model
    chosen: bool = True  # False: the default agent, since nobody named one

    def requested(self, options: dict[str, Any]) -> dict[str, Any]:
        """Merges the given options over those of the profile."""
        if self.profile is None:
            return options
        of_profile = {
            "model": self.profile.model,
            "mode": self.profile.mode,
            "tools": self.profile.tools,
        }
        system = "\n\n".join(filter(None, (self.profile.system, options.get("system"))))
        given = {name: value for name, value in {**of_profile, **options}.items() if value}
        return {**given, "system": system} if system else given


def select_agents(
    config: Config, agent: str | None, model: str | None, cwd: Path
) -> AgentSelection:
    """Selects agents by `agent` as on a command line: `NAME`, `NAME,OTHER`, or a profile."""
    if agent:
        return _named(config, agent, cwd)
    if model:
        return _having(config, model)
    if config.model and "agent" not in config.sources:
        return _having(config, config.model)
    return _named(config, config.agent, cwd)._replace(chosen="agent" in config.sources)


def _named(config: Config, agent: str, cwd: Path) -> AgentSelection:
    if agent.startswith(_WHOLE):
        return AgentSelection((agent,))
    names: list[str] = []
    substitutes: tuple[str, ...] = ()
    chosen: Profile | None = None
    for name in (word.strip() for word in agent.split(",") if word.strip()):
        profile = _profile(config, name, cwd)
        if profile is None:
            names.append(name)
            continue
        if chosen:
            raise UsageError(
                f"two profiles at once: {chosen.name} and {name}",
                hint="name one profile; agents can be added to it",
            )
        chosen = profile
        meant = AgentSelection(profile.agents) if profile.agents else _default(config, profile)
        names += meant.names
        substitutes = meant.substitutes
    if not names:
        raise UsageError("no agent given", hint="`tillerman agents` lists them")
    unique = tuple(dict.fromkeys(names))
    return AgentSelection(unique, chosen, substitutes if len(unique) == 1 else ())


def _default(config: Config, profile: Profile) -> AgentSelection:
    """Selects agents for a profile that names none."""
    if profile.model:
        return _having(config, profile.model)
    return AgentSelection(tuple(word.strip() for word in config.agent.split(",")))


def _having(config: Config, model: str) -> AgentSelection:
    """Selects agents for a model given without an agent: the configured agents that are known to
    offer it, else its vendor's agent with others that offer it as substitutes."""
    from tillerman.config.model_table import load_models

    models = load_models(config.models)
    own = tuple(config.agent.split(",")) if "agent" in config.sources else ()
    if knowing := tuple(name for name in own if models.knows(name, model)):
        return AgentSelection(knowing)
    try:
        maker = models.agent_of(model)
    except UsageError:
        if own:
            return AgentSelection(own)
        raise
    others = (name for name in models.whose(model) if name != maker)
    return AgentSelection((maker,), substitutes=tuple(others))


def _profile(config: Config, name: str, cwd: Path) -> Profile | None:
    """Loads a profile by name; checks that its file exists first, since few runs use one."""
    if not _may_be_profile(config, name, cwd) or name in agents.available(config.agents):
        return None
    from tillerman.config.profiles import profile

    return profile(config.paths, cwd, name)


def _may_be_profile(config: Config, name: str, cwd: Path) -> bool:
    file = f"agents/{name}.md"
    if (config.paths.config / file).exists():
        return True
    project = find_project(cwd)
    return project is not None and (project / FOLDER / file).exists()
