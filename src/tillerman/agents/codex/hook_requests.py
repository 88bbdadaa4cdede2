"""Permission requests from Codex's PreToolUse hook before every call, and the replies to them.

Approval requests alone do not cover what a rule of the user allows, MCP servers that the user
trusts, and viewed images; the hook `PreToolUse` runs before each of them. Codex runs a hook only if
its hash is trusted: ours is configured with its hash for one thread, so that no other hook becomes
trusted and no file of the user is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

from msgspec import json
from msgspec.structs import replace

from tillerman.agents.codex.hook_dialect import dialect
from tillerman.agents.decoding.fields import Table, parse, table, tables, text
from tillerman.core.events import (
    Answer,
    Event,
    PermissionRequested,
    RequestAnswered,
    ToolFinished,
    ToolStarted,
)
from tillerman.hooks.dialects.payload_codec import HookEvent
from tillerman.hooks.protocol import HookReply, refusal

EVENT = "PreToolUse"
KEY = "/<session-flags>/config.toml:pre_tool_use:0:0"  # the first hook of a thread's config

# Tools without effects outside the agent, or that ask by themselves.
_INWARD = frozenset(
    {"request_user_input", "update_plan", "wait", "wait_agent", "send_input", "send_message",
     "close_agent", "resume_agent", "list_agents", "followup_task", "interrupt_agent",
     "tool_search", "get_goal", "create_goal", "update_goal"}
)  # fmt: skip
_DENIED = "The user denied this."
# Codex ignores a hook that was killed and continues, unless it wrote to stderr.
_ALOUD = "( {} ) || {{ echo 'denied by the gate' >&2; exit 2; }}"


def config(command: str, seconds: int) -> Table:
    """The `hooks` table of a thread's config."""
    hook = {"type": "command", "command": _ALOUD.format(command), "timeout": seconds}
    state = {KEY: {"enabled": True, "trusted_hash": hash_of(hook)}}
    return {EVENT: [{"hooks": [hook]}], "state": state}


def hash_of(hook: Table) -> str:
    """The hash as Codex computes it: of the hook itself, not of its source."""
    from hashlib import sha256

    identity = {"event_name": "pre_tool_use", "hooks": [{"async": False, **hook}]}
    return f"sha256:{sha256(json.encode(identity, order='deterministic')).hexdigest()}"


def is_trusted(answer: object) -> bool:
    """Whether `hooks/list` reports our hook as enabled and trusted."""
    found = [
        hook
        for folder in tables(answer if isinstance(answer, dict) else {}, "data")
        for hook in tables(folder, "hooks")
        if text(hook, "key") == KEY
    ]
    return any(
        one.get("enabled") is True and text(one, "trustStatus") == "trusted" for one in found
    )


class CodexHookRequests:
    """Open hook requests; `inside` returns the parent call of a thread."""

    def __init__(self, inside: Callable[[str], str | None]) -> None:
        self._inside = inside
        self._open: dict[str, tuple[HookEvent, PermissionRequested, str]] = {}
        self._allowed: set[str] = set()  # calls that no approval was requested for yet
        self._unreported: list[Event] = []

    def asked(self, ask: str, payload: bytes) -> PermissionRequested | HookReply:
        event = dialect.read(EVENT, payload)
        request = dialect.request_of(event, ask)
        if request is None:
            return refusal("the hook reported no call")
        fields = parse(payload)
        given = fields if isinstance(fields, dict) else {}
        name = text(given, "tool_name")
        if name.rpartition("__")[2] in _INWARD:
            return dialect.nothing(event)
        if name == "view_image":
            input = {"file_path": text(table(given, "tool_input"), "path")}
            request = replace(
                request,
                tool="Read",
                title=f"Read `{input['file_path']}`",
                input=input,
                paths=(input["file_path"],),
            )
        if name == "apply_patch" and len(request.paths) > 1:
            request = replace(request, tool="MultiEdit")
        request = replace(request, parent=self._inside(text(given, "agent_id")))
        self._open[ask] = event, request, name
        return request

    def answer(self, ask: str, answer: Answer) -> HookReply | None:
        """The reply to the hook; None if the request is not from the hook."""
        if ask not in self._open:
            return None
        event, request, name = self._open.pop(ask)
        if answer.option == "deny":
            self._unreported += _unreported(request, name, "denied")
            return dialect.deny(event, answer.note or _DENIED)
        self._allowed.add(request.call_id or "")
        return dialect.allow(event, input=_native_input(answer.input, name))

    def gone(self, ask: str) -> list[Event]:
        """Withdraws a request whose hook no longer waits."""
        if not self._open.pop(ask, None):
            return []
        return [RequestAnswered(request_id=ask, answer=Answer("deny"), by="withdrawn")]

    def allows(self, call_id: str) -> bool:
        """Whether the call was allowed; only once, since a second request asks for more."""
        if call_id not in self._allowed:
            return False
        self._allowed.discard(call_id)
        return True

    def drop(self) -> None:
        """Drops all open requests when the turn is cancelled."""
        for _, request, name in self._open.values():
            self._unreported += _unreported(request, name, "cancelled")
        self._open.clear()

    def unreported(self) -> Iterator[Event]:
        """Events for calls that the hook denied, which Codex does not report."""
        while self._unreported:
            yield self._unreported.pop(0)


def _unreported(
    request: PermissionRequested, name: str, outcome: Literal["denied", "cancelled"]
) -> Iterator[Event]:
    if request.call_id:
        yield ToolStarted(
            call_id=request.call_id,
            tool=request.tool,
            name=name,
            title=request.title,
            input=request.input,
            paths=request.paths,
            parent=request.parent,
        )
        yield ToolFinished(call_id=request.call_id, outcome=outcome, parent=request.parent)


def _native_input(input: Table | None, name: str) -> Table | None:
    """A changed input in Codex's native format."""
    if input is None:
        return None
    if name == "apply_patch":
        return {"command": text(input, "patch") or text(input, "command")}
    return {"path": text(input, "file_path")} if name == "view_image" else input
