"""Errors as JSON-RPC errors: the message for people, kind and hint as data."""

from __future__ import annotations

from typing import Any

from tillerman.agents.acp.failures import AUTH_REQUIRED, NOT_FOUND
from tillerman.agents.jsonrpc.peer import INTERNAL_ERROR, INVALID_PARAMS, RpcError
from tillerman.core.errors import (
    AgentError,
    AgentNotInstalled,
    AgentUnknown,
    ConfigError,
    NotSignedIn,
    SessionNotFound,
    TillermanError,
    Unsupported,
    UsageError,
)
from tillerman.core.failure import Failure
from tillerman.surfaces.machine_errors import machine_error

CANCELLED = -32800
_STOPS = {"output_limit": "max_tokens", "turn_limit": "max_turn_requests", "refused": "refusal"}
_KINDS: tuple[tuple[type[TillermanError], str], ...] = (
    (NotSignedIn, "not_signed_in"),
    (AgentNotInstalled, "not_installed"),
)
_OF_CALLER = (UsageError, ConfigError, AgentUnknown, Unsupported)


class RpcFailure(Exception):
    """The error that a request is answered with."""

    def __init__(self, error: RpcError) -> None:
        super().__init__(error.message)
        self.error = error


class InvalidParams(UsageError):
    """The params of a request lack a member, or it has another type."""


def rpc_error(error: BaseException) -> RpcError:
    if isinstance(error, RpcFailure):
        return error.error
    if not isinstance(error, TillermanError):
        message, hint = machine_error(error) or (
            f"{type(error).__name__}: {error}",
            "this is a bug in tillerman: `tillerman acp --debug` writes a log file",
        )
        return RpcError(INTERNAL_ERROR, message, {"hint": hint})
    data: dict[str, Any] = {"hint": error.hint} if error.hint else {}
    if kind := next((kind for known, kind in _KINDS if isinstance(error, known)), None):
        data["errorKind"] = kind
    if isinstance(error, AgentError):
        data["agent"] = error.agent
    return RpcError(_code(error), error.message, data or None)


def _code(error: TillermanError) -> int:
    match error:
        case NotSignedIn():
            return AUTH_REQUIRED
        case SessionNotFound():
            return NOT_FOUND
        case _ if isinstance(error, _OF_CALLER):
            return INVALID_PARAMS
    return INTERNAL_ERROR


def stop_reason(failure: Failure | None) -> str | None:
    """The stop reason of a failed turn; None: the prompt is answered with an error."""
    return _STOPS.get(failure.kind) if failure else None


def failed_turn(failure: Failure | None) -> RpcError:
    if failure is None:
        return RpcError(INTERNAL_ERROR, "the turn failed")
    data: dict[str, Any] = {"errorKind": failure.kind}
    if failure.hint:
        data["hint"] = failure.hint
    if failure.status is not None:
        data["status"] = failure.status
    if failure.retry_after is not None:
        data["retryAfter"] = failure.retry_after
    code = AUTH_REQUIRED if failure.kind == "not_signed_in" else INTERNAL_ERROR
    return RpcError(code, failure.message, data)
