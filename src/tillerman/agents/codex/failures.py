"""Maps Codex's errors to the failure of a turn."""

from __future__ import annotations

import re

from tillerman.agents.decoding.fields import Table, count, parse, table, text
from tillerman.core.failure import BY_STATUS, Failure, FailureKind, history_lost

_BY_WORD: dict[str, FailureKind] = {
    "contextWindowExceeded": "context_overflow",
    "sessionBudgetExceeded": "cost_limit",
    "usageLimitExceeded": "rate_limited",
    "rateLimitExceeded": "rate_limited",
    "flexUnavailable": "api_error",
    "serverOverloaded": "api_error",
    "policyCapacityUnavailable": "api_error",
    "internalServerError": "api_error",
    "modelNotFound": "model_not_found",
    "unauthorized": "not_signed_in",
    "cyberPolicy": "refused",
    "misalignmentPolicyViolation": "refused",
    "tooManyDenials": "denied",
    "badRequest": "api_error",
    "httpConnectionFailed": "api_error",
    "responseStreamConnectionFailed": "api_error",
    "responseStreamDisconnected": "stream_broken",
    "responseTooManyFailedAttempts": "api_error",
}
_BY_PHRASE: tuple[tuple[str, FailureKind], ...] = (
    ("quota exceeded", "billing"),
    ("billing details", "billing"),
    ("usage limit", "rate_limited"),
    ("does not exist or you do not have access", "model_not_found"),
    ("context window", "context_overflow"),
    ("missing environment variable", "not_signed_in"),
    ("at capacity", "api_error"),
    ("overloaded", "api_error"),
    ("connection failed", "api_error"),
    ("stream disconnected", "stream_broken"),
)
_HINTS: dict[FailureKind, str] = {
    "not_signed_in": "run `codex login`, or set the key that its provider reads",
    "billing": "add credit to the account, or sign in with another",
    "model_not_found": "`tillerman models -a codex` lists the models; choose one with -m",
    "rate_limited": "wait, or use another agent or model",
    "context_overflow": "start a new session, or let the agent /compact this one",
    "cost_limit": "start a new session",
    "refused": "rephrase the request, or use another model",
    "denied": "approve its request, or change the prompt",
    "api_error": "try again in a moment",
    "stream_broken": "try again",
}
_STATUS = re.compile(r"\bstatus:? (\d{3})\b")
TOO_OLD = "update codex, or use `-a codex-exec`"

_NO_SUCH_THREAD = ("no rollout found", "invalid session id")


def failure(error: Table) -> Failure:
    """Maps the `error` of a turn or a notification: `message` and `codexErrorInfo`."""
    message = _said(text(error, "message")) or text(error, "additionalDetails")
    info = error.get("codexErrorInfo")
    word, status = info if isinstance(info, str) else "", 0
    if isinstance(info, dict) and info:
        word = str(next(iter(info)))
        status = count(table(info, word), "httpStatusCode")
    return _failure(word, status, message)


def from_words(message: str) -> Failure:
    """Maps an error text, which is all that `codex exec` gives."""
    return _failure("", 0, _said(message))


def refusal(what: str, message: str) -> Failure:
    """Maps the error response to one of our requests."""
    if any(phrase in message for phrase in _NO_SUCH_THREAD):
        return history_lost(message)
    found = from_words(message)
    if found.kind != "agent_failed":
        return found
    hint = TOO_OLD if message.startswith("Invalid request") else ""
    return Failure(kind="agent_failed", message=f"{what} failed: {message}", hint=hint)


def _failure(word: str, status: int, message: str) -> Failure:
    if not status and (found := _STATUS.search(message)):
        status = int(found[1])
    kind = _kind(word, status, message.lower())
    refused = kind == "api_error" and 400 <= status < 500  # a retry would fail too
    return Failure(
        kind=kind,
        message=message or word or "the agent gave no reason",
        status=status or None,
        hint="" if refused else _HINTS.get(kind, ""),
    )


def _kind(word: str, status: int, message: str) -> FailureKind:
    if status in BY_STATUS:
        return BY_STATUS[status]
    phrases = dict(_BY_PHRASE)
    if word == "usageLimitExceeded" and ("quota" in message or "billing" in message):
        return "billing"  # a plan's limit resets, an empty account does not
    if word in _BY_WORD and not (status and _BY_WORD[word] == "stream_broken"):
        return _BY_WORD[word]
    for phrase, kind in phrases.items():
        if phrase in message:
            return kind
    return "api_error" if status else "agent_failed"


def _said(message: str) -> str:
    """Extracts the message from an error that is the API's whole response."""
    if message.startswith("{"):
        body = parse(message.encode())
        if isinstance(body, dict) and (said := text(table(body, "error"), "message")):
            return said
    return message
