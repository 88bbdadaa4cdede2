"""Session spec: the options for opening a conversation with an agent, grouped."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, field

Mode = Literal["agent", "plan", "ask"]


class Approval(Struct, frozen=True):
    preset: str = "ask"  # for an agent that cannot ask and so must restrict itself
    accept_advisory: bool = False  # start although the preset is not enforced for this agent


class ToolSelection(Struct, frozen=True):
    allowed: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    only: tuple[str, ...] = ()  # tillerman's names, enforced by policy or the agent's list
    servers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # MCP, by name


class NativeLimits(Struct, frozen=True):
    """The limits of a turn that the agent itself enforces."""

    turns: int | None = None
    cost: float | None = None


class NativeOptions(Struct, frozen=True):
    flags: tuple[str, ...] = ()  # extra command-line arguments
    options: Mapping[str, Any] = field(default_factory=dict)  # [agents.NAME] of the config


class SessionSpec(Struct, frozen=True):
    """Options for opening a conversation. An agent raises `Unsupported` for what it cannot do."""

    cwd: Path
    folders: tuple[Path, ...] = ()  # that it may use besides
    model: str | None = None
    effort: str | None = None
    mode: Mode = "agent"
    system: str | None = None
    output_schema: Mapping[str, Any] | None = None
    resume: str | None = None  # AgentReady.native_id of an earlier conversation
    fork: bool = False  # with resume: leave the earlier conversation unchanged
    approval: Approval = Approval()
    tools: ToolSelection = ToolSelection()
    limits: NativeLimits = NativeLimits()
    native: NativeOptions = NativeOptions()
