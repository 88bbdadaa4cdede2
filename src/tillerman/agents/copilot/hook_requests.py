"""Permission requests from Copilot's preToolUse hook before every call, and the replies to them.

Over ACP it asks about some calls only, and not about what its user once approved permanently; its
hook `preToolUse` runs before each. The hook sends no call id: the request belongs to the open call
with the same input. What the hook has allowed is not asked again over ACP, such as an outside path
or a URL.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from tillerman.agents.copilot.hook_dialect import dialect
from tillerman.agents.decoding.fields import Table
from tillerman.core.events import Answer, PermissionRequested, ToolStarted
from tillerman.hooks.dialects.payload_codec import HookEvent
from tillerman.hooks.protocol import HookReply, refusal

EVENT = "preToolUse"

Name = Callable[[PermissionRequested], PermissionRequested]


class CopilotHookRequests:
    """Open hook requests; `name` adds the MCP server and the subagent to a request."""

    def __init__(self, name: Name) -> None:
        self._name = name
        self._calls: dict[str, ToolStarted] = {}  # reported, but not asked about yet
        self._open: dict[str, tuple[HookEvent, PermissionRequested]] = {}
        self._allowed: dict[str, Table] = {}  # input that the hook allowed, by call or request

    def started(self, call: ToolStarted) -> None:
        for ask, input in self._allowed.items():
            if ask.startswith("hook-") and _is_like(call, input):  # asked before it was reported
                self._allowed[call.call_id] = self._allowed.pop(ask)
                return
        self._calls[call.call_id] = call

    def finished(self, call_id: str) -> None:
        self._calls.pop(call_id, None)
        self._allowed.pop(call_id, None)

    def asked(self, ask: str, payload: bytes) -> PermissionRequested | HookReply:
        event = dialect.read(EVENT, payload)
        request = dialect.request_of(event, ask)
        if request is None:
            return refusal("the hook reported no call")
        request = self._name(request)
        calls = [call for call in self._calls.values() if call.tool == request.tool]
        call = next((call for call in calls if _is_like(call, request.input)), None)
        if call:
            del self._calls[call.call_id]
            paths = tuple(dict.fromkeys(request.paths + call.paths))
            request = replace(
                request, call_id=call.call_id, title=call.title, paths=paths, parent=call.parent
            )
        self._open[ask] = event, request
        return request

    def answer(self, ask: str, answer: Answer) -> HookReply | None:
        """The reply to the hook; None if the request is not from the hook."""
        if ask not in self._open:
            return None
        event, request = self._open.pop(ask)
        if answer.option == "deny":
            return dialect.deny(event, answer.note or "the user denied this")
        self._allowed[request.call_id or ask] = request.input
        return dialect.allow(event, input=answer.input)

    def gone(self, ask: str) -> bool:
        """Closes a request; returns whether it was still open."""
        return self._open.pop(ask, None) is not None

    def allows(self, request: PermissionRequested) -> bool:
        """Whether an ACP request is about a call that the hook has already allowed."""
        return request.call_id in self._allowed

    def end(self) -> None:
        self._calls.clear()
        self._open.clear()
        self._allowed.clear()


def _is_like(call: ToolStarted, input: Table) -> bool:
    return all(call.input.get(key) == value for key, value in input.items())
