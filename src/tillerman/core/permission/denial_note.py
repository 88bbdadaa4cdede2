"""Builds the note for a denied agent that cannot receive changed input: what to request instead."""

from __future__ import annotations

from tillerman.core.events import PermissionRequested
from tillerman.core.permission.command_actions import LINE_KEYS
from tillerman.core.permission.policy import Decision


def denial_note(decision: Decision, request: PermissionRequested) -> str:
    """The note of a decision that rewrites the input, with the rewritten input."""
    new = decision.input or {}
    changed = {key: value for key, value in new.items() if request.input.get(key) != value}
    match list(changed.items()):
        case [(key, str(line))] if key in LINE_KEYS:
            words = line
        case pairs:
            words = ", ".join(f"{key} = {value!r}" for key, value in pairs)
    return ": ".join(filter(None, (decision.note, f"use `{words}` instead")))
