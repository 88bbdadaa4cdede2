"""Who is asked for: agents by name, in order, a profile, or a model that tells whose it is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tillerman import agents
from tillerman.config import Config
from tillerman.config.project_trust import FOLDER, find_project
from tillerman.core.errors import UsageError

if TYPE_CHECKING:
    from tillerman.config.profiles import Profile

_WHOLE = (agents.AD_HOC, "replay:")  # a command line or a path, which may hold commas


class AgentSelection(NamedTuple):
    names: tuple[str, ...]  # of agents; at least one
    profile: Profile | None = None
    substitutes: tuple[str, ...] = ()  # who has the model, where its maker's agent cannot be used

    def wishes(self, said: dict[str, Any]) -> dict[str, Any]:
        """What was said, over what the profile says."""
        if self.profile is None:
            return said
        of_profile = {
            "model": self.profile.model,
            "mode": self.profile.mode,
            "tools": self.profile.tools,
        }
        system = "\n\n".join(filter(None, (self.profile.system, said.get("system"))))
        given = {name: value for name, value in {**of_profile, **said}.items() if value}
        return {**given, "system": system} if system else given


def select_agents(
    config: Config, agent: str | None, model: str | None, cwd: Path
) -> AgentSelection:
    """`agent` as on a command line: `claude`, `claude,codex`, the name of a profile."""
    if agent:
        return _named(config, agent, cwd)
    if model:
        return _having(config, model)
    if config.model and "agent" not in config.sources:
        return _having(config, config.model)
    return _named(config, config.agent, cwd)


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
                f"two profiles at once: {chosen.name} and {name}", hint="name one, and agents"
            )
        chosen = profile
        meant = AgentSelection(profile.agents) if profile.agents else _default(config, profile)
        names += meant.names
        substitutes = meant.substitutes
    if not names:
        raise UsageError("no agent is named", hint="`tillerman agents` lists them")
    unique = tuple(dict.fromkeys(names))
    return AgentSelection(unique, chosen, substitutes if len(unique) == 1 else ())


def _default(config: Config, profile: Profile) -> AgentSelection:
    """Of a profile that names no agent."""
    if profile.model:
        return _having(config, profile.model)
    return AgentSelection(tuple(word.strip() for word in config.agent.split(",")))


def _having(config: Config, model: str) -> AgentSelection:
    """Agents for a model that is named alone: the user's own, if they are known to have it; else
    its maker's, and others that have it for the case that it cannot be used."""
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
    """Looked for by name first: few runs have any, and none should wait for the reading."""
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
