"""Answers that count beyond their request: rules of the session, and those that wait to be asked.

Both are read off the log, and kept up by the same code while the session runs.
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
        self.rules: tuple[Rule, ...] = ()  # newest first: a later word counts more
        self.names: set[str] = set()  # of all that was ever asked
        self._waiting: dict[bytes, RequestAnswered] = {}

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> SessionRules:
        """`entries`: at least those of the types in TOLD_BY."""
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
                case SettingsChanged(forgotten=str(told)):
                    recalled.forget(told)
        return recalled

    def asked(self, request: Request) -> RequestAnswered | None:
        """The answer that waited for this; it waits no longer, whatever is made of it."""
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

    def forget(self, told: str) -> bool:
        """By the line that people know it by. False: there is no such rule."""
        left = tuple(rule for rule in self.rules if rule.told != told)
        known = len(left) < len(self.rules)
        self.rules = left
        return known

    def turn_ended(self, end: TurnEnded) -> None:
        """An answer belongs to the work that was interrupted: once more is done, it is stale."""
        if end.reason == "completed":
            self._waiting.clear()


def remembered_rule(request: PermissionRequested, answer: Answer) -> Rule | None:
    """What "always" adds: as narrow as the request, or nothing."""
    return rule_for(request, "deny" if denies(request, answer) else "allow")


def denies(request: Request, answer: Answer) -> bool:
    """By the kind of the option that was chosen: agents name theirs as they like."""
    if isinstance(request, PermissionRequested):
        for option in request.options:
            if option.id == answer.option:
                return option.kind == "deny"
    return answer.option == "deny"


def _same(request: Request) -> bytes:
    """Equal for requests that ask for the same."""
    if isinstance(request, PermissionRequested):
        return _encode((request.tool, request.input, request.paths))
    return _encode(request.questions)
