"""A hook answered by the policy alone: what its rules leave open, the CLI asks by itself."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

from tillerman.core.events import PermissionRequested
from tillerman.core.permission import Decision, DecisionContext, Policy
from tillerman.core.permission.denial_note import denial_note
from tillerman.core.permission.search_paths import keys_to_leave_files_out
from tillerman.hooks.dialects.dialect import HookDialect
from tillerman.hooks.dialects.payload_codec import HookEvent, UnreadablePayload
from tillerman.hooks.protocol import HookReply


def judged(
    dialect: HookDialect, event: HookEvent, policy: Policy, context: DecisionContext
) -> HookReply:
    """Where the CLI cannot ask either, what is open is denied."""
    if isinstance(event, UnreadablePayload):
        return dialect.deny(event, event.why)
    request = dialect.request_of(event, "hook")
    if request is None:
        return dialect.nothing(event)
    decision = policy.decide(request, context)
    match decision.verdict:
        case "allow":
            return dialect.allow(event)
        case "ask":
            return dialect.ask(event, _told(decision, request))
        case "rewrite":
            added = keys_to_leave_files_out(request.tool, context.agent)
            input = _changed(event, request, decision.input or {}, added)
            if input is not None and event.event in dialect.CHANGES_INPUT:
                return dialect.allow(event, input=input)
    return dialect.deny(event, _told(decision, request))


def _told(decision: Decision, request: PermissionRequested) -> str:
    note = denial_note(decision, request) if decision.verdict == "rewrite" else decision.note
    return f"{note} (tillerman: {decision.rule})"


def _changed(
    event: HookEvent, request: PermissionRequested, new: Mapping[str, Any], added: Set[str]
) -> dict[str, Any] | None:
    """The new input in the CLI's own keys; None where they are not ours.

    `added` are its own as well, though the call does not have them.
    """
    given = getattr(event, "tool_input", None)
    if not isinstance(given, dict):
        return None
    changed = {key: value for key, value in new.items() if request.input.get(key) != value}
    if changed.keys() - given.keys() - added and request.tool != "MCP":
        return None
    return {**given, **changed}
