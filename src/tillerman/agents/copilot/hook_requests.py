"""The questions of Copilot's hook before every call, as requests, and what was said to them.

Over ACP it asks about some calls only, and not about what its user once approved for ever; its hook
`preToolUse` runs before each. The hook tells no id of the call: the one that is open, and takes the
same, is meant. What the hook has allowed is not asked again over ACP: a path outside, a URL.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from tillerman.agents.decoding.fields import Table
from tillerman.core.events import Answer, PermissionRequested, ToolStarted
from tillerman.hooks.dialects.copilot import dialect
from tillerman.hooks.dialects.payload_codec import HookEvent
from tillerman.hooks.protocol import HookReply, refusal

EVENT = "preToolUse"

Name = Callable[[PermissionRequested], PermissionRequested]


class CopilotHookRequests:
    """`name` knows the servers and the subagents."""

    def __init__(self, name: Name) -> None:
        self._name = name
        self._calls: dict[str, ToolStarted] = {}  # told, and not yet asked about
        self._open: dict[str, tuple[HookEvent, PermissionRequested]] = {}
        self._allowed: dict[str, Table] = {}  # what the hook allowed, by call or question

    def started(self, call: ToolStarted) -> None:
        for ask, input in self._allowed.items():
            if ask.startswith("hook-") and _is_like(call, input):  # it was asked about too early
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
            return refusal("the hook did not tell of a call")
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
        """None: it is not the hook that asked this."""
        if ask not in self._open:
            return None
        event, request = self._open.pop(ask)
        if answer.option == "deny":
            return dialect.deny(event, answer.note or "the user did not allow this")
        self._allowed[request.call_id or ask] = request.input
        return dialect.allow(event, input=answer.input)

    def gone(self, ask: str) -> bool:
        """Whether it was still to be answered."""
        return self._open.pop(ask, None) is not None

    def allows(self, request: PermissionRequested) -> bool:
        """What Copilot asks over ACP about a call that may run already."""
        return request.call_id in self._allowed

    def end(self) -> None:
        self._calls.clear()
        self._open.clear()
        self._allowed.clear()


def _is_like(call: ToolStarted, input: Table) -> bool:
    return all(call.input.get(key) == value for key, value in input.items())
