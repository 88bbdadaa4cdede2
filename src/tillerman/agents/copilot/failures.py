"""Maps Copilot's `session.error` and error texts to the failure of a turn."""

from __future__ import annotations

import re

from tillerman.agents.decoding.fields import Table, count, text
from tillerman.core.failure import BY_STATUS, Failure, FailureKind

_BY_TYPE: dict[str, FailureKind] = {
    "authentication": "not_signed_in",
    "authorization": "not_signed_in",
    "quota": "billing",
    "rate_limit": "rate_limited",
    "context_limit": "context_overflow",
    "policy": "denied",
}
_SAYS: tuple[tuple[re.Pattern[str], FailureKind], ...] = (
    (re.compile(r"prompt (as|is) too long|context (window|limit)", re.I), "context_overflow"),
    (re.compile(r"no authentication|not (logged|signed) in|log ?in to", re.I), "not_signed_in"),
    (re.compile(r"quota", re.I), "billing"),
    (re.compile(r"model .*not (found|available|supported)", re.I), "model_not_found"),
    (re.compile(r"missing finish_reason|stream (ended|closed)", re.I), "stream_broken"),
    (re.compile(r"failed to get response from the AI model", re.I), "api_error"),
)
_HINTS: dict[FailureKind, str] = {
    "not_signed_in": "run `copilot login`, or set COPILOT_GITHUB_TOKEN or COPILOT_PROVIDER_API_KEY",
    "billing": "wait for the next period, or use your own provider (`copilot help providers`)",
    "model_not_found": "choose another model with -m",
    "rate_limited": "wait, or use another agent or model",
    "context_overflow": "start a new session, or let the agent /compact this one",
    "api_error": "try again in a moment",
    "stream_broken": "try again",
    "denied": "a policy of the account does not allow it",
}
_STATUS = re.compile(r"\(HTTP ([45]\d\d)\)|Last error: ([45]\d\d)\b|^([45]\d\d) ")


def failure(error: Table) -> Failure:
    """Maps `{errorType, message, statusCode}`."""
    return told(text(error, "message"), text(error, "errorType"), count(error, "statusCode"))


def told(message: str, kind: str = "", status: int = 0) -> Failure:
    found = _STATUS.search(message)
    status = status or (int(next(filter(None, found.groups()))) if found else 0)
    why = _kind(message, kind, status)
    return Failure(
        kind=why,
        message=message or kind or "it gave no reason",
        status=status or None,
        hint=_HINTS.get(why, ""),
    )


def _kind(message: str, kind: str, status: int) -> FailureKind:
    if kind in _BY_TYPE:
        return _BY_TYPE[kind]
    if status in BY_STATUS:
        return BY_STATUS[status]
    said = next((why for pattern, why in _SAYS if pattern.search(message)), None)
    return said or ("api_error" if status else "agent_failed")
