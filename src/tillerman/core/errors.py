"""Exceptions for callers, each with an exit code and a hint for the next step.

TillermanError
├── UsageError                 wrong arguments in a call or on the command line
├── ConfigError                a config file or value is wrong
│   └── PipelineFileError      names the file and the line
├── AgentError                 names the agent
│   ├── AgentNotInstalled
│   ├── AgentUnknown
│   ├── GateNotEnforced        the agent would act without approval
│   ├── NotUsable              not installed, not signed in, or its state is unknown
│   │   └── NotSignedIn
│   └── Unsupported            this agent cannot do that
├── SessionError
│   ├── SessionNotFound
│   ├── SessionBusy            another process owns it, or a turn is running
│   ├── PromptRefused          by the user's prompt check
│   ├── PromptWithdrawn        cancelled before its turn began
│   ├── RequestNotOpen         already answered, or never asked
│   ├── SessionClosed          the handle was closed
│   └── TurnFailed             raised by `Result.check`; sessions store failures as events
├── StoreError
│   ├── StoreNewer             written by a newer tillerman
│   ├── StoreDamaged
│   ├── StoreReadOnly          readable but not writable
│   └── StorageFull
├── SupervisionUnavailable     this machine does not support the requested supervision level
└── IsolationUnavailable       this machine does not support the requested isolation level

A failure that belongs in the log is an event (`TurnEnded(reason="failed")`), not an exception.
"""

from __future__ import annotations

import re
from collections.abc import Sequence


class TillermanError(Exception):
    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def kind_of(error: type[TillermanError]) -> str:
    """The name of an error for programs."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", error.__name__).lower()


class UsageError(TillermanError):
    exit_code = 2


class ConfigError(TillermanError):
    exit_code = 2


class PipelineFileError(ConfigError):
    def __init__(self, path: str, line: int, problem: str, *, hint: str) -> None:
        super().__init__(f"{path}:{line}: {problem}", hint=hint)
        self.path = path
        self.line = line
        self.problem = problem


class AgentError(TillermanError):
    def __init__(self, agent: str, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.agent = agent


class AgentNotInstalled(AgentError):
    exit_code = 3

    def __init__(self, agent: str, *, binary: str, hint: str) -> None:
        super().__init__(agent, f"{agent} is not installed: no `{binary}` on PATH", hint=hint)


class NotUsable(AgentError):
    exit_code = 3


class NotSignedIn(NotUsable):
    """The agent reports that nobody is signed in; the hint tells how to sign in."""


class AgentUnknown(AgentError):
    exit_code = 2

    def __init__(self, agent: str, known: list[str]) -> None:
        from difflib import get_close_matches

        near = get_close_matches(agent, known, n=2)
        hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(known)}"
        super().__init__(agent, f"unknown agent: {agent!r}", hint=hint)


class Unsupported(AgentError):
    exit_code = 2

    def __init__(self, agent: str, feature: str, *, hint: str = "") -> None:
        super().__init__(agent, f"{agent} does not support {feature}", hint=hint)
        self.feature = feature


class GateNotEnforced(AgentError):
    """The approval policy would not be enforced for this agent."""

    exit_code = 4

    def __init__(self, agent: str, approve: str, classes: Sequence[str]) -> None:
        super().__init__(
            agent,
            f"{agent} does not declare that it asks before every {' and '.join(classes)} call: "
            f"`{approve}` would not be enforced",
            hint="use --accept-advisory to run it anyway, or --approve auto to approve every call; "
            "`tillerman doctor --gate` shows which agents enforce approval",
        )


class SessionError(TillermanError):
    pass


class SessionNotFound(SessionError):
    exit_code = 2

    def __init__(self, session: str) -> None:
        super().__init__(
            f"no session matches {session!r}", hint="`tillerman sessions list` lists all sessions"
        )


class SessionBusy(SessionError):
    pass


class PromptRefused(SessionError):
    exit_code = 4

    def __init__(self, command: str, why: str) -> None:
        super().__init__(
            f"`{command}` rejected this prompt: {why}",
            hint="change the prompt, or `prompts.check` in the config",
        )


class PromptWithdrawn(SessionError):
    exit_code = 130


class RequestNotOpen(SessionError):
    def __init__(self, request_id: str) -> None:
        super().__init__(
            f"request {request_id!r} is not open: it was already answered, or does not exist",
            hint="`tillerman requests list` lists the open requests",
        )


class SessionClosed(SessionError):
    exit_code = 2

    def __init__(self, session: str) -> None:
        super().__init__(
            f"session {session} is closed", hint=f"`harness.resume({session!r})` continues it"
        )


class TurnFailed(SessionError):
    """`kind` is that of the turn's failure; None for a cancelled or running turn."""

    def __init__(self, message: str, *, hint: str = "", kind: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.kind = kind


class StoreError(TillermanError):
    pass


class StoreNewer(StoreError):
    exit_code = 2


class StoreDamaged(StoreError):
    pass


class StoreReadOnly(StoreError):
    pass


class StorageFull(StoreError):
    pass


class SupervisionUnavailable(TillermanError):
    exit_code = 4


class IsolationUnavailable(TillermanError):
    exit_code = 4

    def __init__(self, level: str, reason: str, hint: str) -> None:
        super().__init__(f"isolation level {level} is not available here: {reason}", hint=hint)
        self.level = level
        self.reason = reason
