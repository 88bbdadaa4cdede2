"""What to say to an agent that cannot be given other input: what to ask for instead."""

from __future__ import annotations

from tillerman.core.events import PermissionRequested
from tillerman.core.permission.command_actions import LINE_KEYS
from tillerman.core.permission.policy import Decision


def denial_note(decision: Decision, request: PermissionRequested) -> str:
    """The note of a decision that rewrites, and what it would have made of the request."""
    new = decision.input or {}
    changed = {key: value for key, value in new.items() if request.input.get(key) != value}
    match list(changed.items()):
        case [(key, str(line))] if key in LINE_KEYS:
            words = line
        case pairs:
            words = ", ".join(f"{key} = {value!r}" for key, value in pairs)
    return ": ".join(filter(None, (decision.note, f"use `{words}` instead")))
