"""Row of data that describes an ACP agent: its command, options and deviations from the default."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct, field

from tillerman.core.agent import AgentInfo, Mode
from tillerman.core.tools import ToolClass

# Features that the protocol supports. Whether an agent has them is known only after `initialize`; a
# missing feature then fails the turn with an error that names it.
USUAL = frozenset(
    {
        "streaming", "thinking", "resume", "cancel", "permissions", "modes", "model", "effort",
        "images", "mcp", "system", "usage",
    }
)  # fmt: skip


class AcpAgentRow(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    command: tuple[str, ...]  # runs the agent with ACP on stdin and stdout
    title: str = ""
    install: str = ""
    login: str = ""  # how a user signs in
    variables: tuple[str, ...] = ()  # same as in AgentInfo
    tested: tuple[str, str] | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    can: frozenset[str] = frozenset()  # in addition to USUAL
    cannot: frozenset[str] = frozenset()  # removed from USUAL
    asks: frozenset[ToolClass] = frozenset()  # same as in AgentInfo
    lists: bool = False  # supports session/list
    experimental: bool = False  # not tested with tillerman

    # Options at start; without a flag they are set over the protocol.
    model_flag: str = ""
    folder_flag: str = ""
    model_stays: bool = False  # a model set over the protocol would become the user's default

    # Session options.
    modes: Mapping[Mode, str | tuple[str, ...]] = field(default_factory=dict)
    """Its ids for ours, or several of which the first that a session offers is taken; that of
    "agent" is set too, if there is one."""
    meta: Mapping[str, Any] = field(default_factory=dict)  # `_meta` of session/new etc.
    system: tuple[str, ...] = ()  # path in `_meta` for the system prompt; empty: first prompt
    replays: Literal["before", "after"] = "before"  # history, relative to the session/load response

    # Decoding options.
    tool_name: str = (
        ""  # besides "name": "title", "id" (up to "__"), or a path such as "_meta.toolName"
    )
    tools: Mapping[str, str] = field(default_factory=dict)  # native names -> names of core/tools.py
    parent: str = ""  # path to the parent call of a subagent, such as "_meta.parentToolCallId"
    usage: Literal["turn", "call"] = "turn"  # what `usage` counts: the turn or its last model call
    thought_head: str = ""  # line at the start of each thought chunk, which is removed
    notice_prefixes: tuple[
        str, ...
    ] = ()  # prefixes of the agent's own notices within the model's text
    ignores: tuple[str, ...] = ()  # vendor methods that carry nothing for the log
    turn_over: str = ""  # the method that ends a turn started by the agent
    drops_images: bool = False  # silently, for models that are not known to accept images
    hides_resources: bool = False  # its model gets neither name nor content of embedded files
    efforts: tuple[str, ...] = ()  # same as in AgentInfo
    stops: bool = False  # ends the turn at a denial; tillerman sends the reason and continues

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
            efforts=self.efforts,
        )
