"""Maps an agent's error to a failure by a table of rules, which each vendor's failures.py has."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from msgspec import Struct, field

from tillerman.core.failure import BY_STATUS, Failure, FailureKind, history_lost

ANY_STATUS = -1
NO_STATUS = 0
NO_REASON = "the agent gave no reason"

COMMON_HINTS: Mapping[FailureKind, str] = {
    "billing": "add credit to the account, or sign in with another",
    "model_not_found": "choose another model with -m",
    "rate_limited": "wait, or use another agent or model",
    "context_overflow": "start a new session, or let the agent /compact this one",
    "output_limit": "ask for less in one prompt",
    "refused": "rephrase the request, or use another model",
    "api_error": "try again in a moment",
    "stream_broken": "try again",
}


class FailureRule(NamedTuple):
    """A failure kind, and conditions that must all hold; one that is not set always holds."""

    kind: FailureKind
    name: str = ""  # the vendor's code, type or class of the error
    status: int | None = None  # HTTP status; or ANY_STATUS, NO_STATUS
    text: str = ""  # regular expression that is searched in the error text, ignoring case
    hint: str | None = None  # None: the hint for the kind
    message: str = ""  # of an exit without an error text


def by_name(kinds: Mapping[str, FailureKind]) -> Iterable[FailureRule]:
    return (FailureRule(kind, name=name) for name, kind in kinds.items())


def by_text(*patterns: tuple[str, FailureKind]) -> Iterable[FailureRule]:
    return (FailureRule(kind, text=pattern) for pattern, kind in patterns)


KNOWN_STATUS = tuple(FailureRule(kind, status=status) for status, kind in BY_STATUS.items())
OTHER_STATUS = FailureRule("api_error", status=ANY_STATUS)


class FailureTable(Struct, frozen=True):
    """The first rule that matches decides; without one the agent itself has failed."""

    rules: tuple[FailureRule, ...]
    hints: Mapping[FailureKind, str] = field(default_factory=dict)  # instead of COMMON_HINTS
    exits: Mapping[int, FailureRule] = field(default_factory=dict)  # by exit code
    status_in_text: str = ""  # regular expression with groups, of which one matches the status
    retry_after_in_text: str = ""  # regular expression with one group: seconds
    retry_client_errors: bool = False  # advises a retry after an unknown status 4xx, too

    def read(
        self,
        message: str,
        *,
        name: str = "",
        status: int | None = None,  # None: only the message may contain it
        retry_after: float | None = None,
    ) -> Failure:
        status = self.status_of(message) if status is None else status
        rule = self.match(message, name, status) or FailureRule("agent_failed")
        if rule.kind == "history_lost":
            return history_lost(message)
        if rule.kind != "rate_limited":
            retry_after = None
        elif found := self.retry_after_in_text and _search(self.retry_after_in_text, message):
            retry_after = float(found[1])
        return Failure(
            kind=rule.kind,
            message=message,
            status=status or None,
            retry_after=retry_after,
            hint=self.hint(rule, status),
        )

    def read_exit(self, code: int | None, stderr: str) -> Failure | None:
        """Maps an exit without a result; the last line of stderr is the message."""
        rule = self.exits.get(code) if code is not None else None
        if rule is None:
            return None
        messages = [line for line in stderr.splitlines() if line.strip()]
        message = rule.message or f"the agent ended with exit code {code}"
        message = messages[-1].strip() if messages else message
        if rule.kind == "history_lost":
            return history_lost(message)
        return Failure(kind=rule.kind, message=message, hint=self.hint(rule))

    def match(self, message: str, name: str = "", status: int = 0) -> FailureRule | None:
        return next((rule for rule in self.rules if _holds(rule, message, name, status)), None)

    def status_of(self, message: str) -> int:
        found = re.search(self.status_in_text, message) if self.status_in_text else None
        return int(next(filter(None, found.groups()))) if found else 0

    def hint(self, rule: FailureRule, status: int = 0) -> str:
        if rule.hint is not None:
            return rule.hint
        if rule.kind == "api_error" and 400 <= status < 500 and not self.retry_client_errors:
            return ""  # the API rejects the request: a retry would fail too
        return self.hints.get(rule.kind, COMMON_HINTS.get(rule.kind, ""))


def _holds(rule: FailureRule, message: str, name: str, status: int) -> bool:
    if rule.name and rule.name != name:
        return False
    if rule.status is not None:
        any_status = rule.status == ANY_STATUS and status
        if not any_status and rule.status != status:
            return False
    return not rule.text or _search(rule.text, message) is not None


def _search(pattern: str, message: str) -> re.Match[str] | None:
    return re.search(pattern, message, re.IGNORECASE)  # `re` caches the compiled pattern
