"""One harness for every coding agent.

async with tillerman.open() as harness:
    session = await harness.start("claude", cwd=".", approve="edits")
    async for entry in session.run("Add a test for the parser"):
        print(entry.event)
"""

from __future__ import annotations

from tillerman._version import __version__  # noqa: F401

TYPE_CHECKING = False  # importing `typing` takes as long as the rest of the startup

if TYPE_CHECKING:
    from typing import Any

    from tillerman import sync as sync
    from tillerman.agents import register as register_agent
    from tillerman.core.agent import Agent, File
    from tillerman.core.errors import (
        AgentError,
        AgentNotInstalled,
        AgentUnknown,
        ConfigError,
        GateNotEnforced,
        IsolationUnavailable,
        NotSignedIn,
        NotUsable,
        PipelineFileError,
        PromptRefused,
        PromptWithdrawn,
        RequestNotOpen,
        SessionBusy,
        SessionClosed,
        SessionError,
        SessionNotFound,
        StorageFull,
        StoreDamaged,
        StoreError,
        StoreNewer,
        StoreReadOnly,
        SupervisionUnavailable,
        TillermanError,
        TurnFailed,
        Unsupported,
        UsageError,
    )
    from tillerman.core.events import Answer, Entry, Event
    from tillerman.core.program.callbacks import ToolCall
    from tillerman.core.program.python_tools import ToolServer, tool_server
    from tillerman.core.session_options import ResumeOptions, StartOptions
    from tillerman.core.transcript.transcript import Transcript, fold
    from tillerman.core.transcript.turn_result import Result
    from tillerman.harness.harness import Harness
    from tillerman.harness.harness import open_harness as open
    from tillerman.harness.query import ask, query
    from tillerman.remote.remote_harness import RemoteHarness, connect
    from tillerman.remote.remote_session import RemoteSession
    from tillerman.sessions.session import AttachedSession, Session

_ERRORS = (
    "AgentError", "AgentNotInstalled", "AgentUnknown", "ConfigError", "GateNotEnforced",
    "IsolationUnavailable", "NotSignedIn", "NotUsable", "PipelineFileError", "PromptRefused",
    "PromptWithdrawn", "RequestNotOpen", "SessionBusy", "SessionClosed", "SessionError",
    "SessionNotFound", "StorageFull", "StoreDamaged", "StoreError", "StoreNewer", "StoreReadOnly",
    "SupervisionUnavailable", "TillermanError", "TurnFailed", "Unsupported", "UsageError",
)  # fmt: skip

_HOMES = {
    **dict.fromkeys(_ERRORS, "tillerman.core.errors"),
    "Agent": "tillerman.core.agent",
    "Answer": "tillerman.core.events",
    "AttachedSession": "tillerman.sessions.session",
    "Entry": "tillerman.core.events",
    "Event": "tillerman.core.events",
    "File": "tillerman.core.agent",
    "Harness": "tillerman.harness.harness",
    "RemoteHarness": "tillerman.remote.remote_harness",
    "RemoteSession": "tillerman.remote.remote_session",
    "Result": "tillerman.core.transcript.turn_result",
    "ResumeOptions": "tillerman.core.session_options",
    "Session": "tillerman.sessions.session",
    "StartOptions": "tillerman.core.session_options",
    "ToolCall": "tillerman.core.program.callbacks",
    "ToolServer": "tillerman.core.program.python_tools",
    "Transcript": "tillerman.core.transcript.transcript",
    "ask": "tillerman.harness.query",
    "connect": "tillerman.remote.remote_harness:connect",
    "fold": "tillerman.core.transcript.transcript",
    "open": "tillerman.harness.harness:open_harness",
    "query": "tillerman.harness.query",
    "register_agent": "tillerman.agents:register",
    "tool_server": "tillerman.core.program.python_tools",
}

__all__ = [
    "Agent",
    "AgentError",
    "AgentNotInstalled",
    "AgentUnknown",
    "Answer",
    "AttachedSession",
    "ConfigError",
    "Entry",
    "Event",
    "File",
    "GateNotEnforced",
    "Harness",
    "IsolationUnavailable",
    "NotSignedIn",
    "NotUsable",
    "PipelineFileError",
    "PromptRefused",
    "PromptWithdrawn",
    "RemoteHarness",
    "RemoteSession",
    "RequestNotOpen",
    "Result",
    "ResumeOptions",
    "Session",
    "SessionBusy",
    "SessionClosed",
    "SessionError",
    "SessionNotFound",
    "StartOptions",
    "StorageFull",
    "StoreDamaged",
    "StoreError",
    "StoreNewer",
    "StoreReadOnly",
    "SupervisionUnavailable",
    "TillermanError",
    "ToolCall",
    "ToolServer",
    "Transcript",
    "TurnFailed",
    "Unsupported",
    "UsageError",
    "ask",
    "connect",
    "fold",
    "open",
    "query",
    "register_agent",
    "tool_server",
]


def __getattr__(name: str) -> Any:
    """Imports public names lazily, since `tillerman --version` needs none of them."""
    from importlib import import_module

    if name == "sync":
        return import_module("tillerman.sync")
    if name not in _HOMES:
        raise AttributeError(f"module 'tillerman' has no attribute {name!r}")
    module, _, attribute = _HOMES[name].partition(":")
    return getattr(import_module(module), attribute or name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__", "sync"])
