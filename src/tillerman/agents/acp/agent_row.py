"""An ACP agent as a row of data: how it is started, and in what it differs from the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct, field

from tillerman.core.agent import AgentInfo, Mode
from tillerman.core.tools import ToolClass

# What the protocol has a place for. Whether an agent fills it is known when it has said hello:
# what it then lacks fails the turn, by name.
USUAL = frozenset(
    {
        "streaming", "thinking", "resume", "cancel", "permissions", "modes", "model", "effort",
        "images", "mcp", "system", "usage",
    }
)  # fmt: skip


class AcpAgentRow(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    command: tuple[str, ...]  # that speaks ACP on stdin and stdout
    title: str = ""
    install: str = ""
    login: str = ""  # how a person signs in
    variables: tuple[str, ...] = ()  # as AgentInfo has them
    tested: tuple[str, str] | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    can: frozenset[str] = frozenset()  # besides the usual
    cannot: frozenset[str] = frozenset()  # of the usual
    asks: frozenset[ToolClass] = frozenset()  # as AgentInfo has them
    lists: bool = False  # its sessions
    experimental: bool = False  # nobody has run tillerman with it

    # At its start; without a flag: over the wire.
    model_flag: str = ""
    folder_flag: str = ""
    model_stays: bool = False  # set over the wire, it would be the user's from then on

    # In the session.
    modes: Mapping[Mode, str | tuple[str, ...]] = field(default_factory=dict)
    """Its ids for ours, or several of which the first that a session offers is taken; that of
    "agent" is set too, if there is one."""
    meta: Mapping[str, Any] = field(default_factory=dict)  # `_meta` of session/new and its like
    system: tuple[str, ...] = ()  # a place in it; none: before the first prompt
    replays: Literal["before", "after"] = "before"  # history, seen from the answer to session/load

    # In what it tells.
    tool_name: str = (
        ""  # besides "name": "title", "id" (up to "__"), or a place such as "_meta.toolName"
    )
    tools: Mapping[str, str] = field(default_factory=dict)  # its names -> core/tools.py
    parent: str = ""  # the place of a subagent's call, such as "_meta.parentToolCallId"
    usage: Literal["turn", "call"] = "turn"  # that `usage` counts: all, or its last call
    thought_head: str = ""  # of each piece of a thought, a line by itself; it is left out
    asides: tuple[str, ...] = ()  # beginnings of its own remarks among the model's words
    ignores: tuple[str, ...] = ()  # methods of its own that tell nothing for the log
    turn_over: str = ""  # the method that ends a turn it began by itself
    drops_images: bool = False  # unreported, for a model that it does not know to take them
    stops: bool = False  # at a denial, and tells the model no reason: we say it, and it goes on

    @property
    def info(self) -> AgentInfo:
        return AgentInfo(
            name=self.name,
            title=self.title or self.name,
            can=(USUAL | self.can) - self.cannot,
            binary=self.command[0],
            install=self.install or f"install `{self.command[0]}` and put it on PATH",
            variables=self.variables,
            tested=self.tested,
            sign_in=self.login,
            asks=self.asks,
        )
