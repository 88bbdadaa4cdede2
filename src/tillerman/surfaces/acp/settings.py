"""Settings of a session as the editor's config options: agent, model, mode, approval and effort."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from tillerman.core.agent import Agent, Mode
from tillerman.core.agent_admin import Model
from tillerman.core.errors import TillermanError
from tillerman.core.json_fields import Table
from tillerman.core.session_options import Preset
from tillerman.supervision.linux.which import find_program

if TYPE_CHECKING:
    from tillerman.harness.harness import Harness

DEFAULT = "default"  # of a setting that only the agent knows
MAX_WAIT = 1.0  # seconds that a response waits for lists; later an update brings them
_HIDDEN = ("mock", "replay")
_EFFORTS = ("low", "medium", "high")
MODES: dict[str, tuple[str, str]] = {
    "agent": ("Agent", "edits files and runs commands, as the approval preset allows"),
    "plan": ("Plan", "makes a plan and changes nothing"),
    "ask": ("Ask", "answers questions and changes nothing"),
}
_PRESETS: dict[str, tuple[str, str]] = {
    "ask": ("Ask", "reads run; everything else needs your approval"),
    "edits": ("Allow edits", "reads and edits in the workspace run; commands need your approval"),
    "auto": ("Automatic", "everything runs that no guard denies"),
    "readonly": ("Read only", "reads run, everything else is denied"),
    "none": ("Nothing", "everything is denied"),
}
assert MODES.keys() == set(get_args(Mode))
assert _PRESETS.keys() == set(get_args(Preset))


class CurrentSettings(NamedTuple):
    agent: str
    model: str | None
    mode: str | None
    approve: str
    effort: str | None


class Offers:
    """What can be chosen, as far as known; `changed` is called when more is known."""

    def __init__(self, harness: Harness, changed: Callable[[], None]) -> None:
        self._harness = harness
        self._changed = changed
        self._agents: asyncio.Task[tuple[str, ...]] | None = None
        self._models: dict[str, asyncio.Task[Sequence[Model]]] = {}

    async def of(self, agent: str) -> None:
        """Asks for the lists that this agent's settings need, and waits a moment for them."""
        if self._agents is None:
            self._agents = asyncio.create_task(asyncio.to_thread(self._installed))
            self._agents.add_done_callback(lambda _: self._changed())
        if agent not in self._models:
            self._models[agent] = asyncio.create_task(self._listed(agent))
            self._models[agent].add_done_callback(lambda _: self._changed())
        await asyncio.wait({self._agents, self._models[agent]}, timeout=MAX_WAIT)

    def options(self, now: CurrentSettings) -> list[Table]:
        agent = self._loaded(now.agent)
        can = agent.info.can if agent else frozenset[str]()
        listed = self._agents
        names = _with(now.agent, listed.result() if listed and _known(listed) else ())
        found = [_select("agent", "Agent", "_agent", now.agent, ((n, n, "") for n in names))]
        if "model" in can:
            found.append(self._model(now))
        if "modes" in can:
            shown = ((id, *words) for id, words in MODES.items())
            found.append(_select("mode", "Mode", "mode", now.mode or "agent", shown))
        shown = ((id, *words) for id, words in _PRESETS.items())
        found.append(_select("approve", "Approval", "_approval", now.approve, shown))
        if agent and "effort" in can:
            current = now.effort or DEFAULT
            levels = _with(current, (DEFAULT, *(agent.info.efforts or _EFFORTS)))
            offered = ((level, level.capitalize(), "") for level in levels)
            found.append(_select("effort", "Effort", "thought_level", current, offered))
        return found

    def modes(self, now: CurrentSettings) -> Table | None:
        """The older form of the mode's option, which some editors draw."""
        agent = self._loaded(now.agent)
        if agent is None or "modes" not in agent.info.can:
            return None
        offered = [_named("id", id, *words) for id, words in MODES.items()]
        return {"currentModeId": now.mode or "agent", "availableModes": offered}

    def close(self) -> None:
        for task in (*self._models.values(), self._agents):
            if task:
                task.cancel()

    def _model(self, now: CurrentSettings) -> Table:
        listed = self._models.get(now.agent)
        models = listed.result() if listed and _known(listed) else ()
        current = now.model or next((model.id for model in models if model.current), DEFAULT)
        offered = {model.id: model.title for model in models}
        offered = ({} if current in offered else {current: current.capitalize()}) | offered
        shown = ((id, title, "") for id, title in offered.items())
        return _select("model", "Model", "model", current, shown)

    def _loaded(self, name: str) -> Agent | None:
        try:
            return self._harness.agent(name)
        except Exception:  # a third-party module may raise anything
            return None

    def _installed(self) -> tuple[str, ...]:
        """Agents whose program is there."""
        found = []
        for name in self._harness.agents():
            agent = None if name in _HIDDEN else self._loaded(name)
            if agent is None or not agent.info.prompted:
                continue
            binary = self._harness.config.agents.get(name, {}).get("binary") or agent.info.binary
            if binary is None or find_program(str(binary), None):
                found.append(name)
        return tuple(found)

    async def _listed(self, agent: str) -> Sequence[Model]:
        try:
            return await self._harness.models(agent)
        except TillermanError:
            return ()


def _known(task: asyncio.Task[Any]) -> bool:
    return task.done() and not task.cancelled() and not task.exception()


def _with(current: str, names: Sequence[str]) -> Sequence[str]:
    return names if current in names else (current, *names)


def _select(
    id: str, name: str, category: str, current: str, offered: Iterable[tuple[str, str, str]]
) -> Table:
    options = [_named("value", *one) for one in offered]
    told = {"id": id, "name": name, "category": category, "type": "select"}
    return {**told, "currentValue": current, "options": options}


def _named(key: str, id: str, name: str, description: str = "") -> Table:
    told = {key: id, "name": name}
    return told | ({"description": description} if description else {})
