"""What a session runs under, besides what its agent is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct, field

from tillerman.core.agent import Agent, SessionSpec
from tillerman.core.output_schema import AnswerFormat
from tillerman.core.session_options import Enforced, Handoff, Protected, RateLimit

if TYPE_CHECKING:
    from tillerman.core.events import Notice
    from tillerman.core.permission import Rule


SERVER = "tillerman"  # what agents call the workspace's tools by


class TurnLimits(Struct, frozen=True):
    """None means no limit."""

    turn: float | None = None  # seconds, as the next two
    idle: float | None = None
    request: float | None = None
    turns: int | None = None  # rounds of the model; of one prompt, as the next two
    cost: float | None = None  # US dollars
    tokens: int | None = None
    accept_unpriced: bool = False  # go on though nobody can tell what is spent


class UntilSettings(Struct, frozen=True):
    """A command that is run after each turn; while it fails, the agent is told so and goes on."""

    command: str = ""  # none
    rounds: int = 3  # of one prompt, besides the first


class WorkspaceToolSettings(Struct, frozen=True):
    """The workspace's own tools, for the agent or an MCP client."""

    environment: Mapping[str, str]  # of their commands: without what is the agent's alone
    isolation: str = "basic"  # at least
    survives: bool = False  # what runs in the background outlives a restart of who serves it


class EnforcementSettings(Struct, frozen=True):
    """What the kernel holds of the rules; "auto" is what costs the user nothing."""

    commands: Enforced = "auto"
    protected: Protected = "auto"
    paths: Enforced = "auto"


class RunSettings(Struct, frozen=True):
    approve: str = "ask"
    supervision: str = "auto"
    environment: Mapping[str, str] = field(default_factory=dict)
    secrets: Sequence[tuple[str, str]] = ()  # name, value; never stored
    limits: TurnLimits = field(default_factory=TurnLimits)
    vet: str = ""  # a command that reads each prompt before it is sent
    until: UntilSettings = field(default_factory=UntilSettings)
    answer: AnswerFormat | None = None  # what the answer of each turn is to be
    tools: tuple[str, ...] = ()  # of our vocabulary; the only ones allowed, if any are named
    rules: tuple[Rule, ...] = ()  # of config files, the first that matches counts
    tightening: tuple[Rule, ...] = ()  # of a project that is not trusted
    enforcement: EnforcementSettings = field(default_factory=EnforcementSettings)
    models: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # [models] of the config
    bench: WorkspaceToolSettings | None = None  # what it is offered besides its own tools
    notices: tuple[Notice, ...] = ()  # told when the next turn begins
    output_cap: int = 50_000  # bytes, as all below
    spill_cap: int = 256 * 1024 * 1024
    turn_cap: int = 256 * 1024 * 1024
    line_cap: int = 12 * 1024 * 1024  # decoding one takes four times that


class LaunchPlan(NamedTuple):
    """An agent, what it is told, and what it runs under."""

    agent: Agent
    spec: SessionSpec
    terms: RunSettings


class FallbackRules(Struct, frozen=True):
    """What happens when an agent cannot go on."""

    handoff: Handoff = "limits"
    rate_limit: RateLimit = "switch"
    wait: float = 900.0  # seconds for rate limits to pass, in one turn
