"""What can be set: the typed Config, each of its values with its kind, default and meaning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from types import MappingProxyType
from typing import Any

from bridle.config.kinds import Kind, choice, count, names, seconds, size, text
from bridle.config.paths import Paths, find_paths

APPROVE = ("none", "readonly", "ask", "edits", "auto")  # strictest first
SUPERVISION = ("auto", "namespace", "cgroup", "subreaper", "group")
KB, MB = 1 << 10, 1 << 20


def _setting(default: Any, kind: Kind, help: str) -> Any:
    return field(default=default, metadata={"kind": kind, "help": help})


@dataclass(frozen=True)
class Env:
    """What of the user's environment an agent gets, besides the usual."""

    passed: tuple[str, ...] = _setting((), names(), "variables that agents get besides the usual")


@dataclass(frozen=True)
class Limits:
    """Sizes in bytes, times in seconds; None: no limit."""

    tool_output: int = _setting(50 * KB, size(), "of a tool's result in its event")
    spill: int = _setting(256 * MB, size(), "of one spill file")
    turn_log: int = _setting(256 * MB, size(), "of all that one turn writes to the log")
    line: int = _setting(16 * MB, size(64 * KB), "of one line that is still decoded")
    idle: float | None = _setting(
        1800.0, seconds(optional=True), "without a word from the agent, then the turn is ended"
    )
    total: float | None = _setting(None, seconds(optional=True), "of one turn")
    request: float = _setting(3600.0, seconds(), "until an unanswered request is denied")
    turns: int | None = _setting(None, count(optional=True), "rounds of the model in one prompt")
    cost: float | None = _setting(
        None, count(optional=True, fraction=True), "US dollars of one prompt"
    )


@dataclass(frozen=True)
class Store:
    """How long history is kept."""

    keep_days: int | None = _setting(
        None, count(optional=True), "after which sessions are deleted; none keeps them"
    )


@dataclass(frozen=True)
class Source:
    """Where a value came from."""

    layer: str  # default, project, user, environment, flag
    where: str = ""  # the file, the variable or the flag
    line: int | None = None

    def __str__(self) -> str:
        if self.layer == "default":
            return "default"
        return f"{self.where}:{self.line}" if self.line else self.where


@dataclass(frozen=True)
class Withheld:
    """A value of a project that is not trusted, and why it does not count."""

    key: str
    why: str


@dataclass(frozen=True)
class Config:
    """All that can be set, frozen, with where each value came from."""

    agent: str = _setting("claude", text(), "that runs when none is named")
    model: str | None = _setting(None, text(), "that the agent is asked to use")
    approve: str = _setting(
        "ask", choice(APPROVE, strictest_first=True), "what is allowed without asking"
    )
    supervision: str = _setting(
        "auto", choice(SUPERVISION), "how the processes of an agent are kept together"
    )
    color: str = _setting("auto", choice(("auto", "always", "never")), "in the terminal")
    env: Env = Env()
    limits: Limits = Limits()
    store: Store = Store()
    agents: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # [agents.NAME]
    paths: Paths = field(default_factory=find_paths)
    sources: Mapping[str, Source] = field(default_factory=dict)  # by dotted key; none: default
    withheld: tuple[Withheld, ...] = ()


@dataclass(frozen=True)
class Setting:
    """One key of a config file."""

    key: str  # dotted, as in the file
    kind: Kind
    default: Any
    help: str

    @property
    def variable(self) -> str:
        return "BRIDLE_" + self.key.upper().replace(".", "_")


_FILE_NAMES = {"passed": "pass"}  # a keyword in Python
_AGENT_KINDS = {"acp": text(), "binary": text(), "model": text(), "flags": names()}


def _settings(owner: type[Any], prefix: str = "") -> Iterator[Setting]:
    for item in fields(owner):
        if "kind" in item.metadata:
            key = prefix + _FILE_NAMES.get(item.name, item.name)
            yield Setting(key, item.metadata["kind"], item.default, item.metadata["help"])
        elif is_dataclass(item.default):
            yield from _settings(type(item.default), f"{item.name}.")


SETTINGS: Mapping[str, Setting] = {setting.key: setting for setting in _settings(Config)}


def agent_kind(key: str) -> Kind | None:
    """Of `agents.NAME.key`; an agent may have keys of its own, of any kind."""
    return _AGENT_KINDS.get(key.split(".", 2)[2])


def build(values: Mapping[str, Any], **besides: Any) -> Config:
    """The Config of these values by dotted key; what is absent is default."""
    agents: dict[str, dict[str, Any]] = {}
    for key, value in values.items():
        if key.startswith("agents."):
            _, name, option = key.split(".", 2)
            agents.setdefault(name, {})[option] = value
    frozen = {name: MappingProxyType(options) for name, options in agents.items()}
    config: Config = _filled(Config, "", values, agents=MappingProxyType(frozen), **besides)
    return config


def _filled(owner: type[Any], prefix: str, values: Mapping[str, Any], **besides: Any) -> Any:
    found = dict(besides)
    for item in fields(owner):
        key = prefix + _FILE_NAMES.get(item.name, item.name)
        if key in values:
            found[item.name] = values[key]
        elif is_dataclass(item.default):
            found[item.name] = _filled(type(item.default), f"{item.name}.", values)
    return owner(**found)


def value_at(config: Config, key: str) -> Any:
    """The value at a dotted key of `SETTINGS`, or `agents.NAME.OPTION`."""
    if key.startswith("agents."):
        _, name, option = key.split(".", 2)
        return config.agents.get(name, {}).get(option)
    at: Any = config
    for part in key.split("."):
        at = getattr(at, "passed" if part == "pass" else part)
    return at
