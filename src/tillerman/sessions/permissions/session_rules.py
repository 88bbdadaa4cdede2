"""Remembered rules of a session, and stored answers to requests that were interrupted.

Both are read from the log, and updated by the same code while the session runs.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from tillerman.core.events import (
    Answer,
    Entry,
    PermissionRequested,
    QuestionAsked,
    RequestAnswered,
    SettingsChanged,
    TurnEnded,
)
from tillerman.core.permission import Rule
from tillerman.core.permission.remembered_rule import rule_for

Request = PermissionRequested | QuestionAsked
TOLD_BY = (
    "permission_requested", "question_asked", "request_answered", "turn_ended", "settings_changed",
)  # fmt: skip

_encode = msgspec.json.Encoder(order="sorted").encode


class SessionRules:
    def __init__(self) -> None:
        self.rules: tuple[Rule, ...] = ()  # newest first: a later answer takes precedence
        self.names: set[str] = set()  # ids of all requests so far
        self._waiting: dict[bytes, RequestAnswered] = {}

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> SessionRules:
        """Reads the rules. `entries`: at least those of the types in TOLD_BY."""
        recalled = cls()
        asked: dict[str, Request] = {}
        for entry in entries:
            match entry.event:
                case PermissionRequested() | QuestionAsked() as request:
                    recalled.names.add(request.request_id)
                    asked[request.request_id] = request
                    recalled.asked(request)
                case RequestAnswered() as event:
                    if event.request_id in asked:
                        recalled.answered(asked.pop(event.request_id), event)
                case TurnEnded() as end:
                    recalled.turn_ended(end)
                case SettingsChanged(forgotten=str(text)):
                    recalled.forget(text)
        return recalled

    def asked(self, request: Request) -> RequestAnswered | None:
        """Removes and returns the stored answer to this request, if there is one."""
        return self._waiting.pop(_same(request), None) if self._waiting else None

    def answered(self, request: Request, event: RequestAnswered) -> None:
        if event.waits:
            self._waiting[_same(request)] = event
        if (
            event.answer.remember == "session"
            and isinstance(request, PermissionRequested)
            and (rule := remembered_rule(request, event.answer))
        ):
            rule = replace(rule, source="session")
            self.rules = (rule, *(one for one in self.rules if one != rule))

    def forget(self, text: str) -> bool:
        """Removes a rule by its displayed text. False: there is no such rule."""
        left = tuple(rule for rule in self.rules if rule.told != text)
        known = len(left) < len(self.rules)
        self.rules = left
        return known

    def turn_ended(self, end: TurnEnded) -> None:
        """Drops stored answers after a completed turn: they belong to the interrupted work."""
        if end.reason == "completed":
            self._waiting.clear()


def remembered_rule(request: PermissionRequested, answer: Answer) -> Rule | None:
    """The rule for an "always" answer: as narrow as the request, or None."""
    return rule_for(request, "deny" if denies(request, answer) else "allow")


def denies(request: Request, answer: Answer) -> bool:
    """Whether the chosen option denies, by its kind: agents choose their own option ids."""
    if isinstance(request, PermissionRequested):
        for option in request.options:
            if option.id == answer.option:
                return option.kind == "deny"
    return answer.option == "deny"


def _same(request: Request) -> bytes:
    """A key that is equal for requests that ask for the same."""
    if isinstance(request, PermissionRequested):
        return _encode((request.tool, request.input, request.paths))
    return _encode(request.questions)
