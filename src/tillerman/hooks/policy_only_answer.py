"""Answers a hook by the policy alone; requests without a matching rule are left to the CLI."""

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


def decide_hook(
    dialect: HookDialect, event: HookEvent, policy: Policy, context: DecisionContext
) -> HookReply:
    """Answers by the policy; an open request is denied if the CLI cannot ask the user."""
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
            return dialect.ask(event, _explanation(decision, request))
        case "rewrite":
            added = keys_to_leave_files_out(request.tool, context.agent)
            input = _changed(event, request, decision.input or {}, added)
            if input is not None and event.event in dialect.CHANGES_INPUT:
                return dialect.allow(event, input=input)
    return dialect.deny(event, _explanation(decision, request))


def _explanation(decision: Decision, request: PermissionRequested) -> str:
    note = denial_note(decision, request) if decision.verdict == "rewrite" else decision.note
    return f"{note} (tillerman: {decision.rule})"


def _changed(
    event: HookEvent, request: PermissionRequested, new: Mapping[str, Any], added: Set[str]
) -> dict[str, Any] | None:
    """The new input in the CLI's native keys; None if it uses keys that the call does not have.

    `added`: native keys that are allowed although the call does not have them.
    """
    given = getattr(event, "tool_input", None)
    if not isinstance(given, dict):
        return None
    changed = {key: value for key, value in new.items() if request.input.get(key) != value}
    if changed.keys() - given.keys() - added and request.tool != "MCP":
        return None
    return {**given, **changed}
