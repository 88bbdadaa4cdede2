"""Run settings of a session: limits, environment, rules, enforcement, caps, launch plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from tillerman.core.agent import Agent, SessionSpec
from tillerman.core.program.answer_format import AnswerFormat
from tillerman.core.program.callbacks import Callbacks
from tillerman.core.session_options import Enforced, Handoff, Protected, RateLimit, with_options

if TYPE_CHECKING:
    from tillerman.core.events import Notice
    from tillerman.core.permission import Rule
    from tillerman.core.program.python_tools import ToolServer
    from tillerman.supervision.secrets import Secrets


SERVER = "tillerman"  # name of the workspace tools' MCP server


class TurnLimits(Struct, frozen=True):
    """Limits of a turn; None means no limit."""

    turn: float | None = None  # seconds, like the next two
    idle: float | None = None
    request: float | None = None
    turns: int | None = None  # model calls; per prompt, like the next two
    cost: float | None = None  # US dollars
    tokens: int | None = None
    accept_unpriced: bool = False  # continue although the cost is unknown


class UntilSettings(Struct, frozen=True):
    """A command that runs after each turn; while it fails, the agent continues with its output."""

    command: str = ""  # empty: none
    rounds: int = 3  # per prompt, besides the first


class WorkspaceToolSettings(Struct, frozen=True):
    """Settings of the workspace tools, for the agent or an MCP client."""

    environment: Mapping[str, str]  # of their commands: without the agent's variables
    isolation: str = "basic"  # minimum
    survives: bool = False  # background processes outlive a restart of the server


class EnforcementSettings(Struct, frozen=True):
    """Kernel enforcement of rules; "auto" enforces what has no cost for the user."""

    commands: Enforced = "auto"
    protected: Protected = "auto"
    paths: Enforced = "auto"


class RunSettings(Struct, frozen=True):
    approve: str = "ask"
    supervision: str = "auto"
    environment: Mapping[str, str] = field(default_factory=dict)
    secrets: Sequence[tuple[str, str]] = ()  # name, value; never stored
    limits: TurnLimits = field(default_factory=TurnLimits)
    vet: str = ""  # a command that checks each prompt before it is sent
    until: UntilSettings = field(default_factory=UntilSettings)
    answer: AnswerFormat | None = None  # required format of each turn's answer
    tools: tuple[str, ...] = ()  # the only tools allowed, if any, by tillerman's names
    rules: tuple[Rule, ...] = ()  # of config files; the first match counts
    tightening: tuple[Rule, ...] = ()  # of an untrusted project
    enforcement: EnforcementSettings = field(default_factory=EnforcementSettings)
    models: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # [models] of the config
    bench: WorkspaceToolSettings | None = None  # offered besides its native tools
    functions: Mapping[str, ToolServer] = field(default_factory=dict)  # MCP servers in Python
    relays: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # to tillerman's servers
    callbacks: Callbacks = Callbacks()
    notices: tuple[Notice, ...] = ()  # emitted when the next turn starts
    output_cap: int = 50_000  # characters of the texts of one event
    spill_cap: int = 256 * 1024 * 1024  # bytes, like all below
    turn_cap: int = 256 * 1024 * 1024
    line_cap: int = 12 * 1024 * 1024  # decoding takes four times as much memory


class LaunchPlan(NamedTuple):
    """An agent, its `SessionSpec`, and its `RunSettings`."""

    agent: Agent
    spec: SessionSpec
    run_settings: RunSettings

    def offering(self, relays: Mapping[str, Mapping[str, Any]]) -> LaunchPlan:
        """Adds MCP servers of tillerman, if the agent can use any."""
        if not relays or "mcp" not in self.agent.info.can:
            return self
        spec = with_options(self.spec, servers={**self.spec.tools.servers, **relays})
        return self._replace(spec=spec, run_settings=replace(self.run_settings, relays=relays))


class FallbackRules(Struct, frozen=True):
    """What to do when an agent cannot continue."""

    handoff: Handoff = "limits"
    rate_limit: RateLimit = "switch"
    wait: float = 900.0  # seconds to wait for rate limits, per turn


def known_secrets(run_settings: RunSettings) -> Secrets:
    """Returns the registry of the secrets that the settings name."""
    from tillerman.supervision.secrets import Secrets

    secrets = Secrets()
    register_secrets(secrets, run_settings)
    return secrets


def register_secrets(secrets: Secrets, run_settings: RunSettings) -> None:
    for name, value in run_settings.secrets:
        secrets.register(name, value)
