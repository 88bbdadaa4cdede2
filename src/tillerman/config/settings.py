"""Config schema: the typed Config and each setting's value type, default and help text."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, get_args

from msgspec import Struct, field

from tillerman.config.value_types import (
    ValueType,
    ValueTypeError,
    agent_list,
    choice,
    count,
    key_table,
    model_rows,
    names,
    seconds,
    size,
    switch,
    text,
)
from tillerman.core.errors import ConfigError, UsageError
from tillerman.core.session_options import (
    Enforced,
    Handoff,
    Isolation,
    Preset,
    Protected,
    RateLimit,
    Supervision,
)
from tillerman.paths import Paths, find_paths

if TYPE_CHECKING:
    from tillerman.core.permission import Rule

APPROVE: tuple[Preset, ...] = ("none", "readonly", "ask", "edits", "auto")  # strictest first
ENFORCED: tuple[Enforced, ...] = get_args(Enforced)
HANDOFF: tuple[Handoff, ...] = get_args(Handoff)
PROTECTED: tuple[Protected, ...] = get_args(Protected)
ISOLATION: tuple[Isolation, ...] = get_args(Isolation)  # strictest first
NOTIFY = ("desktop", "bell", "none")
PLACES = ("top", "bottom", "left", "right", "hidden")
SUPERVISION: tuple[Supervision, ...] = get_args(Supervision)
KB, MB = 1 << 10, 1 << 20


class Env(Struct, frozen=True):
    passed: tuple[str, ...] = ()


class LimitsConfig(Struct, frozen=True):
    tool_output: int = 50 * KB
    spill: int = 256 * MB
    turn_log: int = 256 * MB
    line: int = 12 * MB
    idle: float | None = 1800.0
    total: float | None = None
    request: float = 3600.0
    turns: int | None = None
    cost: float | None = None
    tokens: int | None = None


class TeamConfig(Struct, frozen=True):
    """Fallback settings: what happens when an agent fails and others are configured."""

    handoff: Handoff = "limits"
    rate_limit: RateLimit = "switch"
    wait: float = 900.0


class UntilConfig(Struct, frozen=True):
    """A command that runs after each turn and decides whether another turn follows."""

    command: str | None = None
    rounds: int = 3


class Prompts(Struct, frozen=True):
    check: str | None = None


class Workspace(Struct, frozen=True):
    """Settings of the workspace tools that tillerman offers agents."""

    tools: bool = False
    isolation: Isolation = "basic"


class EnforcementConfig(Struct, frozen=True):
    """Which policy rules the kernel enforces, independent of the agent's requests."""

    commands: Enforced = "auto"
    protected: Protected = "auto"
    paths: Enforced = "auto"


class OutputConfig(Struct, frozen=True):
    """Settings of sessions with an output schema."""

    repair: bool = False


class ServerConfig(Struct, frozen=True):
    """Settings of the session service."""

    warm_agents: int | None = 2


class Store(Struct, frozen=True):
    keep_days: int | None = None


class Screen(Struct, frozen=True):
    """Terminal interface settings."""

    theme: str = "tillerman-dark"
    breadcrumb: str = "top"
    notify: str = "desktop"
    keys: Mapping[str, str] = field(default_factory=dict)  # action name -> key


class Source(Struct, frozen=True):
    """Where a value was set."""

    layer: str  # default, project, user, environment, flag
    where: str = ""  # file, variable or flag name
    line: int | None = None

    def __str__(self) -> str:
        if self.layer == "default":
            return "default"
        return f"{self.where}:{self.line}" if self.line else self.where


class IgnoredSetting(Struct, frozen=True):
    """A setting of an untrusted project that is ignored, with the reason."""

    key: str
    why: str


class Config(Struct, frozen=True):
    agent: str = "claude"  # or several in order: `claude,codex`
    model: str | None = None
    approve: Preset = "ask"
    accept_advisory: bool = False
    supervision: Supervision = "auto"
    color: str = "auto"
    experimental_agents: bool = False
    env: Env = Env()
    limits: LimitsConfig = LimitsConfig()
    store: Store = Store()
    team: TeamConfig = TeamConfig()
    prompts: Prompts = Prompts()
    until: UntilConfig = UntilConfig()
    output: OutputConfig = OutputConfig()
    workspace: Workspace = Workspace()
    enforcement: EnforcementConfig = EnforcementConfig()
    screen: Screen = Screen()
    server: ServerConfig = ServerConfig()
    models: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # [models.NAME]
    agents: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # [agents.NAME]
    rules: tuple[Rule, ...] = ()  # [[rules]]: project rules first, then user rules
    tightening: tuple[Rule, ...] = ()  # rules of an untrusted project; they can only restrict
    paths: Paths = field(default_factory=find_paths)
    sources: Mapping[str, Source] = field(default_factory=dict)  # by dotted key; absent: default
    withheld: tuple[IgnoredSetting, ...] = ()


class ConfigKey(Struct, frozen=True):
    """Definition of one config key."""

    key: str  # dotted, as in the config file
    kind: ValueType
    help: str

    @property
    def default(self) -> Any:
        return value_at(Config(), self.key)

    @property
    def variable(self) -> str:
        return "TILLERMAN_" + self.key.upper().replace(".", "_")


_SETTINGS = (
    ConfigKey(
        "agent", agent_list(), "agent to run by default; of several, the first that is available"
    ),
    ConfigKey("model", text(), "model to use by default"),
    ConfigKey("approve", choice(APPROVE, strictest_first=True), "what is allowed without asking"),
    ConfigKey("accept_advisory", switch(), "whether agents that do not enforce approval may run"),
    ConfigKey("supervision", choice(SUPERVISION), "how an agent's processes are supervised"),
    ConfigKey("color", choice(("auto", "always", "never")), "colored output"),
    ConfigKey("experimental_agents", switch(), "whether untested agents can be used"),
    ConfigKey("env.pass", names(), "additional environment variables for agents"),
    ConfigKey("limits.tool_output", size(), "maximum size of a tool result in its event"),
    ConfigKey("limits.spill", size(), "maximum size of a spill file"),
    ConfigKey("limits.turn_log", size(), "maximum log size of a turn"),
    ConfigKey("limits.line", size(64 * KB), "maximum length of a line that is decoded"),
    ConfigKey(
        "limits.idle", seconds(optional=True), "time without output after which a turn is stopped"
    ),
    ConfigKey("limits.total", seconds(optional=True), "time limit of a turn"),
    ConfigKey(
        "limits.request",
        seconds(),
        "time until an unanswered request is denied; unset: 5m without a terminal",
    ),
    ConfigKey("limits.turns", count(optional=True), "maximum number of model calls per prompt"),
    ConfigKey(
        "limits.cost", count(optional=True, fraction=True), "maximum cost per prompt, in US dollars"
    ),
    ConfigKey("limits.tokens", count(optional=True), "maximum number of tokens per prompt"),
    ConfigKey("team.handoff", choice(HANDOFF), "when another agent may continue a turn"),
    ConfigKey("team.rate_limit", choice(("switch", "wait")), "what to do on a rate limit"),
    ConfigKey("team.wait", seconds(), "maximum time to wait for a rate limit to reset"),
    ConfigKey(
        "prompts.check",
        text(),
        "command that checks each prompt; if it fails, the prompt is not sent",
    ),
    ConfigKey(
        "until.command",
        text(),
        "command to run after each turn; while it fails, the agent gets its output",
    ),
    ConfigKey("until.rounds", count(), "maximum number of such retries per prompt"),
    ConfigKey(
        "output.repair", switch(), "whether to retry an answer that does not match the schema"
    ),
    ConfigKey("workspace.tools", switch(), "whether agents get tillerman's file and process tools"),
    ConfigKey(
        "workspace.isolation",
        choice(ISOLATION, strictest_first=True),
        "minimum isolation of commands run by these tools",
    ),
    ConfigKey(
        "enforcement.commands",
        choice(ENFORCED, strictest_first=True),
        "whether the kernel enforces denied commands; auto: for root",
    ),
    ConfigKey(
        "enforcement.protected",
        choice(PROTECTED, strictest_first=True),
        "how protected names are enforced; auto: by mounts if possible",
    ),
    ConfigKey(
        "enforcement.paths",
        choice(ENFORCED, strictest_first=True),
        "whether files that rules deny to read are hidden; auto: if possible",
    ),
    ConfigKey("models", model_rows(), "model names, added to the built-in table"),
    ConfigKey("screen.theme", text(), "theme of the terminal interface; /theme lists them"),
    ConfigKey("screen.breadcrumb", choice(PLACES), "where to show the branch status"),
    ConfigKey(
        "screen.notify", choice(NOTIFY), "how to notify you when an agent waits for approval"
    ),
    ConfigKey("screen.keys", key_table(), "key bindings of the terminal interface, by action"),
    ConfigKey(
        "server.warm_agents",
        count(optional=True),
        "agents that the service keeps started for the next session; none: it keeps none",
    ),
    ConfigKey(
        "store.keep_days",
        count(optional=True),
        "days after which sessions are deleted; none: never",
    ),
)
SETTINGS: Mapping[str, ConfigKey] = {setting.key: setting for setting in _SETTINGS}
_SECTIONS: Mapping[str, type[Struct]] = {
    "enforcement": EnforcementConfig,
    "env": Env,
    "limits": LimitsConfig,
    "output": OutputConfig,
    "prompts": Prompts,
    "screen": Screen,
    "server": ServerConfig,
    "store": Store,
    "team": TeamConfig,
    "until": UntilConfig,
    "workspace": Workspace,
}
_FIELD_NAMES = {"pass": "passed"}  # `pass` is a Python keyword
_AGENT_KINDS = {
    "acp": text(),
    "binary": text(),
    "model": text(),
    "flags": names(),
    "variables": names(),
}


def agent_kind(key: str) -> ValueType | None:
    """Value type of `agents.NAME.key`; None for a vendor-specific key, which may have any type."""
    return _AGENT_KINDS.get(key.split(".", 2)[2])


def build(values: Mapping[str, Any], **besides: Any) -> Config:
    """Builds a Config from values by dotted key; absent values keep their defaults."""
    agents: dict[str, dict[str, Any]] = {}
    for key, value in values.items():
        if key.startswith("agents."):
            _, name, option = key.split(".", 2)
            agents.setdefault(name, {})[option] = value
    frozen = {name: MappingProxyType(options) for name, options in agents.items()}
    given: dict[str, Any] = {"agents": MappingProxyType(frozen), **besides}
    sections: dict[str, dict[str, Any]] = {name: {} for name in _SECTIONS}
    for key in values.keys() & SETTINGS.keys():
        section, _, name = key.rpartition(".")
        into = sections[section] if section else given
        into[_FIELD_NAMES.get(name, name)] = values[key]
    given |= {name: _SECTIONS[name](**found) for name, found in sections.items()}
    return Config(**given)


def check_config(config: Config) -> None:
    """Validates a Config built in Python with the same value types as config files."""
    if not isinstance(config, Config):
        raise UsageError(
            f"config cannot be {config!r}: expected a `tillerman.config.Config`",
            hint="omit it to use the config files; options such as `approve` are for `start`",
        )
    for setting in _SETTINGS:
        value = value_at(config, setting.key)
        if value == setting.default:
            continue
        try:
            is_right = (
                setting.kind.read(list(value) if isinstance(value, tuple) else value) == value
            )
        except ValueTypeError:
            is_right = False
        if not is_right:  # unequal values are rejected too: a file may use "0" for no limit
            hint = f"expected {setting.kind.expected}"
            raise ConfigError(f"{setting.key} cannot be {value!r}", hint=hint)


def value_at(config: Config, key: str) -> Any:
    """Value at a dotted key of `SETTINGS`, or at `agents.NAME.OPTION`."""
    if key.startswith("agents."):
        _, name, option = key.split(".", 2)
        return config.agents.get(name, {}).get(option)
    at: Any = config
    for part in key.split("."):
        at = getattr(at, _FIELD_NAMES.get(part, part))
    return at
