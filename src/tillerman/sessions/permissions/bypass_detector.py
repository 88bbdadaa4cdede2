"""Detects tool calls that ran without approval although the agent promised to ask.

It relies on what the agent reports, and avoids false alarms. So it ignores a call with the outcome
`denied`, which decoders also set for a refusal that the agent reports as completed or failed with
its own text. It also ignores calls that never end, and calls of a tool without a class. A denial
revokes an earlier approval only of the same request: a part of a command may be denied, and the
command continue.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from msgspec.structs import replace

from tillerman.core.events import (
    Event,
    PermissionRequested,
    QuestionAsked,
    RequestAnswered,
    Text,
    ToolFinished,
    ToolStarted,
)
from tillerman.core.failure import Failure
from tillerman.core.tools import TOOLS, ToolClass, class_of
from tillerman.sessions.permissions.session_rules import denies

WATCHES: frozenset[type] = frozenset({ToolStarted, ToolFinished})

# An agent refuses some calls by itself without asking: an unknown tool, an invalid input. Only for
# a command that failed with an exit code is it certain that it ran.
_EXIT_CODE = re.compile(
    r"^((command|process) )?exit(ed with)? (code|status):? -?\d|\bexit code:? -?\d+\s*\Z",
    re.IGNORECASE | re.MULTILINE,
)


class BypassDetector:
    """Compares finished tool calls with the answers to requests.

    It reports once per opened agent that a call ran which was not allowed: without a request, or
    although it was denied.
    """

    def __init__(self) -> None:
        self._agent = ""
        self._asks: Collection[ToolClass] = frozenset()
        self._calls: dict[str, tuple[ToolClass, str]] = {}  # started calls, with their titles
        self._allowed: dict[str, PermissionRequested] = {}  # without their inputs
        self._spent: set[str] = set()  # calls that ended since they were allowed
        self._revoked: set[str] = set()
        self._denied: set[str] = set()
        self._unnamed: list[ToolClass] = []  # classes allowed by requests without a call id

    def opened(self, agent: str, asks: Collection[ToolClass]) -> None:
        """An agent was opened or reopened: earlier approvals do not apply to its calls."""
        self._agent = agent
        self._asks = asks
        self._calls.clear()
        self._allowed.clear()
        self._spent.clear()
        self._revoked.clear()
        self._denied.clear()
        self._unnamed.clear()

    def answered(
        self, request: PermissionRequested | QuestionAsked, event: RequestAnswered
    ) -> None:
        if not self._asks or isinstance(request, QuestionAsked):
            return
        call_id = request.call_id or ""
        if event.by == "withdrawn" or denies(request, event.answer):
            self._denied.add(call_id)
            earlier = self._allowed.get(call_id)
            if event.by != "withdrawn" and earlier and _same(earlier, request):
                self._revoked.add(call_id)
        elif call_id:
            self._allowed[call_id] = replace(request, input={}, paths=(), options=())
            self._revoked.discard(call_id)
            self._spent = {one for one in self._spent if call_id not in _ids(one)}
        elif kind := class_of(request.tool):
            self._unnamed.append(kind)

    def turn_ended(self) -> None:
        """Drops approvals without a call id, which were for a call of this turn."""
        self._unnamed.clear()

    def observe(self, event: Event) -> Failure | None:
        """Returns the failure if the event shows a bypass."""
        match event:
            case ToolStarted(call_id=call_id, tool=tool, title=title):
                # a tool outside of the vocabulary may be internal to the agent
                kind = class_of(tool) if tool in TOOLS else None
                if kind and kind in self._asks:
                    self._calls[call_id] = kind, title
            case ToolFinished(call_id=call_id) if call_id in self._calls:
                kind, title = self._calls.pop(call_id)
                if _ran(event, kind) and not self._may_run(event, kind):
                    self._calls.clear()
                    self._asks = frozenset()
                    denied = not self._denied.isdisjoint(_ids(call_id))
                    return self._failure(title, denied=denied)
        return None

    def _may_run(self, event: ToolFinished, kind: ToolClass) -> bool:
        for one in _ids(event.call_id) & self._allowed.keys():
            # a command that failed in a sandbox ran, but inside of it
            held = one not in self._revoked or event.outcome == "failed"
            if held and event.call_id not in self._spent and _covers(self._allowed[one], kind):
                self._spent.add(event.call_id)
                return True
        if kind in self._unnamed:
            self._unnamed.remove(kind)
            return True
        return False

    def _failure(self, title: str, *, denied: bool) -> Failure:
        how = "although it was denied" if denied else "without approval"
        return Failure(
            kind="gate_bypassed",
            message=f"{self._agent} ran {title} {how}",
            hint="its processes were terminated; check its changes, run `tillerman doctor --gate`",
        )


def _ran(event: ToolFinished, kind: ToolClass) -> bool:
    if event.outcome == "failed" and kind == "shell":
        return any(_EXIT_CODE.search(p.text) for p in event.content if isinstance(p, Text))
    return event.outcome == "completed"


def _same(one: PermissionRequested, other: PermissionRequested) -> bool:
    return (one.tool, one.title) == (other.tool, other.title)


def _covers(allowed: PermissionRequested, kind: ToolClass) -> bool:
    """Whether the approval covers the class. Commands and unknown tools may do anything."""
    if allowed.tool not in TOOLS or allowed.tool == "Bash":
        return True
    return kind in (class_of(allowed.tool), "read")


def _ids(call_id: str) -> set[str]:
    """Ids that the call may have been requested under: `ID:1` is the second part of `ID`."""
    return {call_id, call_id.rpartition(":")[0] or call_id}
