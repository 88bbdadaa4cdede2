"""The options of a permission request for the editor, and the answers they stand for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from tillerman.core.events import Answer, PermissionRequested
from tillerman.core.json_fields import Table, at
from tillerman.core.permission.remembered_rule import rule_for
from tillerman.core.terminal_sanitizer import clean
from tillerman.sessions.permissions.project_rules import project_of

_KINDS = {"allow": "allow_once", "deny": "reject_once"}
_SCOPES: tuple[tuple[Literal["session", "project"], str], ...] = (
    ("session", "Always in this session"),
    ("project", "Always in this project"),
)

Choices = dict[str, tuple[Table, Answer]]  # by option id


def choices(request: PermissionRequested, folder: Path) -> Choices:
    """The agent's own "always" is replaced by ours, whose rule is stored by tillerman."""
    return {option["optionId"]: (option, answer) for option, answer in _choices(request, folder)}


def _choices(request: PermissionRequested, folder: Path) -> Iterator[tuple[Table, Answer]]:
    offered = [option for option in request.options if option.kind != "always"]
    allow = next((option.id for option in offered if option.kind == "allow"), None)
    for option in (option for option in offered if option.kind == "allow"):
        yield _option(option.id, option.label, "allow_once"), Answer(option.id)
    if allow is not None and rule_for(request) is not None:
        for scope, label in _SCOPES:
            if scope == "session" or project_of(folder):
                known = {option.id for option in offered}
                id = f"always-{scope}" if f"always-{scope}" not in known else f"always-{scope}~"
                yield _option(id, label, "allow_always"), Answer(allow, remember=scope)
    for option in (option for option in offered if option.kind == "deny"):
        yield _option(option.id, option.label, "reject_once"), Answer(option.id)


def _option(id: str, label: str, kind: str) -> Table:
    return {"optionId": id, "name": clean(label), "kind": kind}


def chosen(result: Any, choices: Choices) -> Answer | None:
    """The answer of the editor; a dismissed dialog denies. None: it cannot be understood."""
    match at(result, "outcome", "outcome"):
        case "cancelled":
            return Answer("deny")
        case "selected":
            found = choices.get(str(at(result, "outcome", "optionId")))
            return found[1] if found else None
    return None
