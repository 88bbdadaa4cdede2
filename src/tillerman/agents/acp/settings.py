"""Model, mode and effort of an ACP session: the values offered, and the requests that set them.

An agent has config options, found by category since their ids differ, or only the older `modes` and
`models`, each with its own method.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from tillerman.agents.acp.rows.agent_row import AcpAgentRow
from tillerman.agents.decoding.fields import Table, table, tables, text
from tillerman.core.agent import Mode, SessionSpec
from tillerman.core.events import Event, SettingsChanged

What = Literal["model", "mode", "effort"]

_CATEGORIES: dict[What, tuple[str, ...]] = {
    "model": ("model",),
    "mode": ("mode",),
    "effort": ("thought_level", "effort", "reasoning_effort"),
}


class _Older(NamedTuple):
    """A block in the response to session/new, from before config options existed."""

    block: str
    items: str
    id: str
    current: str
    method: str


_OLDER: dict[What, _Older] = {
    "model": _Older("models", "availableModels", "modelId", "currentModelId", "session/set_model"),
    "mode": _Older("modes", "availableModes", "id", "currentModeId", "session/set_mode"),
}
_MODE_WORDS: dict[Mode, tuple[str, ...]] = {  # for an agent whose row has no modes
    "plan": ("plan", "architect", "read-only", "readonly"),
    "ask": ("ask", "chat", "plan", "read-only", "readonly"),
    "agent": ("agent", "default", "code", "build"),
}


class AcpChoice(NamedTuple):
    """A setting with its current and offered values."""

    option: str  # id of a config option; "" for the older blocks
    current: str
    offered: tuple[tuple[str, str], ...]  # ids and names


class AcpSettingChange(NamedTuple):
    what: What
    value: str  # the agent's id
    method: str
    params: Table


class AcpSettings:
    def __init__(self, row: AcpAgentRow, spec: SessionSpec) -> None:
        self._row = row
        self._wanted: dict[What, str] = {}
        if spec.model and not row.model_flag:
            self._wanted["model"] = spec.model
        if spec.effort:
            self._wanted["effort"] = spec.effort
        if spec.mode != "agent" or "agent" in row.modes:
            self._wanted["mode"] = spec.mode
        self.mode: Mode = spec.mode
        self._first_mode = ""  # at the start of the session
        self._choices: dict[What, AcpChoice] = {}

    @property
    def model(self) -> str:
        choice = self._choices.get("model")
        return choice.current if choice else ""

    # -- received from the agent --

    def opened(self, result: Table) -> None:
        """Reads the response to session/new, load, resume or fork."""
        for what, older in _OLDER.items():
            if block := table(result, older.block):
                items = tables(block, older.items)
                offered = tuple((text(one, older.id), text(one, "name")) for one in items)
                self._choices[what] = AcpChoice("", text(block, older.current), offered)
        self._read_options(result)
        if mode := self._choices.get("mode"):
            self._first_mode = mode.current
        if self.mode == "agent" and self._first_mode == self._id_of("plan") != "":
            self._wanted["mode"] = "agent"  # left by an earlier turn of the conversation
        if self._wanted.get("mode") == "agent" and not self._id_of("agent"):
            self.drop("mode")  # another version of the agent, whose mode is not changed
        for what, choice in self._choices.items():
            if what in self._wanted and choice.current == self._value(what, self._wanted[what]):
                self.drop(what)

    def options(self, fields: Table) -> Iterator[Event]:
        """Handles `config_option_update` and the response to session/set_config_option."""
        before = self.model
        self._read_options(fields)
        if self.model != before:
            yield SettingsChanged(model=self.model)
        if mode := self._choices.get("mode"):
            yield from self._reported_mode(mode.current)

    def mode_reported(self, id: str) -> Iterator[Event]:
        """Handles `current_mode_update`."""
        if mode := self._choices.get("mode"):
            self._choices["mode"] = mode._replace(current=id)
        yield from self._reported_mode(id)

    def _reported_mode(self, id: str) -> Iterator[Event]:
        """Updates the mode; an agent with one id for two of our modes leaves ours unchanged."""
        if not id or id == self._id_of(self.mode):
            return
        mode: Mode = "plan" if id == self._id_of("plan") else "agent"
        if mode != self.mode:
            self.mode = mode
            yield SettingsChanged(mode=mode)

    def _read_options(self, fields: Table) -> None:
        for option in tables(fields, "configOptions"):
            for what, categories in _CATEGORIES.items():
                if (text(option, "category") or text(option, "id")) in categories:
                    self._choices[what] = AcpChoice(
                        text(option, "id"), text(option, "currentValue"), tuple(_offered(option))
                    )

    # -- settings to apply --

    def want(self, model: str | None, mode: Mode | None) -> None:
        if model:
            self._wanted["model"] = model
        if mode:
            self._wanted["mode"] = mode

    def next(self) -> What | None:
        return next(iter(self._wanted), None)

    def change(self, what: What, session: str) -> AcpSettingChange | None:
        """The request that applies a setting; None if the agent does not offer it."""
        wanted = self._wanted[what]
        choice, value = self._choices.get(what), self._value(what, wanted)
        if choice is None or not value:
            return None
        if choice.option:
            params = {"sessionId": session, "configId": choice.option, "value": value}
            return AcpSettingChange(what, value, "session/set_config_option", params)
        params = {"sessionId": session, f"{what}Id": value}
        return AcpSettingChange(what, value, _OLDER[what].method, params)

    def _value(self, what: What, wanted: str) -> str:
        """The agent's id for a value."""
        if what == "mode":
            return self._id_of(wanted)
        choice = self._choices.get(what)
        value = _named(choice, wanted)
        if what == "effort" and choice and choice.offered and value not in dict(choice.offered):
            return ""
        return value

    def offered(self, what: What) -> str:
        """The offered values, as text for users."""
        choice = self._choices.get(what)
        return ", ".join(id for id, _ in choice.offered) if choice else ""

    def wanted(self, what: What) -> str:
        return self._wanted[what]

    def done(self, change: AcpSettingChange, result: Table) -> Iterator[Event]:
        wanted = self._wanted.pop(change.what, None)
        if choice := self._choices.get(change.what):
            self._choices[change.what] = choice._replace(current=change.value)
        match change.what, wanted:
            case "model", _:
                yield SettingsChanged(model=change.value)
            case "mode", ("agent" | "plan" | "ask") as mode:
                self.mode = mode
                yield SettingsChanged(mode=mode)
        self._read_options(result)

    def drop(self, what: What) -> None:
        """Drops a setting that is not available or already applied."""
        self._wanted.pop(what, None)

    def _id_of(self, mode: Mode | str) -> str:
        """The agent's id for our mode; "" if there is none."""
        choice = self._choices.get("mode")
        if choice is None or mode not in _MODE_WORDS:
            return ""
        offered = {_label(id): id for id, _ in choice.offered}
        if ids := self._row.modes.get(mode):
            known = [ids] if isinstance(ids, str) else ids
            return next((id for id in known if id in offered.values() or not offered), "")
        if mode == "agent" and _label(self._first_mode) not in _MODE_WORDS["plan"]:
            return self._first_mode
        found = (offered[word] for word in _MODE_WORDS[mode] if word in offered)
        return next(found, "")


def _label(id: str) -> str:
    """Returns `plan` for `https://…/session-modes#plan`."""
    return id.rpartition("#")[2].lower()


def _offered(option: Table) -> Iterator[tuple[str, str]]:
    """The values of a select option, which may be grouped."""
    for one in tables(option, "options"):
        if "value" in one:
            yield text(one, "value"), text(one, "name")
        else:
            yield from _offered(one)


def _named(choice: AcpChoice | None, wanted: str) -> str:
    """Finds the id by id or name; a value that is not listed is passed on to the agent."""
    offered = choice.offered if choice else ()
    if any(id == wanted for id, _ in offered):
        return wanted
    named = (id for id, name in offered if name.lower() == wanted.lower())
    return next(named, wanted)
