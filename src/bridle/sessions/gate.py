"""Holds an agent to its word: a call of a class that it asks about runs with our answer alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

from bridle.core.events import (
    Event,
    PermissionRequested,
    QuestionAsked,
    RequestAnswered,
    Text,
    ToolFinished,
    ToolStarted,
)
from bridle.core.failure import Failure
from bridle.core.tools import TOOLS, ToolClass, class_of
from bridle.sessions.recollection import denies

WATCHES: frozenset[type] = frozenset({ToolStarted, ToolFinished})

# An agent refuses some calls by itself, unasked: a tool that is not there, an input that does not
# fit. Only of a command that failed is it certain that it ran.
_EXIT_CODE = re.compile(r"\AExit code -?\d|\bexit code:? -?\d+\s*\Z", re.IGNORECASE)


class Gate:
    """`bypassed` is called once for each agent that is opened, when a call ran that was not
    allowed: nobody had been asked, or the answer was no."""

    def __init__(self, bypassed: Callable[[Failure], None]) -> None:
        self._bypassed = bypassed
        self._agent = ""
        self._asks: Collection[ToolClass] = frozenset()
        self._calls: dict[str, tuple[ToolClass, str]] = {}  # that began, with their titles
        self._allowed: set[str] = set()
        self._denied: set[str] = set()
        self._unnamed: list[ToolClass] = []  # what was allowed in a request that names no call

    def opened(self, agent: str, asks: Collection[ToolClass]) -> None:
        """An agent, or the same one anew: nothing that was allowed holds for its calls."""
        self._agent = agent
        self._asks = asks
        self._calls.clear()
        self._allowed.clear()
        self._denied.clear()
        self._unnamed.clear()

    def answered(
        self, request: PermissionRequested | QuestionAsked, event: RequestAnswered
    ) -> None:
        if not self._asks or isinstance(request, QuestionAsked):
            return
        kind = class_of(request.tool)
        if event.by == "withdrawn" or denies(request, event.answer):
            self._denied.add(request.call_id or "")
        elif request.call_id:
            self._allowed.add(request.call_id)
        elif kind:
            self._unnamed.append(kind)

    def hear(self, event: Event) -> None:
        match event:
            case ToolStarted(call_id=call_id, tool=tool, title=title):
                # a tool that we have no word for may be of the agent's own mind
                kind = class_of(tool) if tool in TOOLS else None
                if kind and kind in self._asks:
                    self._calls[call_id] = kind, title
            case ToolFinished(call_id=call_id) if call_id in self._calls:
                kind, title = self._calls.pop(call_id)
                if _ran(event, kind) and not self._may_run(call_id, kind):
                    self._calls.clear()
                    self._asks = frozenset()
                    denied = not self._denied.isdisjoint(_ids(call_id))
                    self._bypassed(self._failure(title, denied=denied))

    def _may_run(self, call_id: str, kind: ToolClass) -> bool:
        if not self._allowed.isdisjoint(_ids(call_id)):
            return True
        if kind in self._unnamed:
            self._unnamed.remove(kind)
            return True
        return False

    def _failure(self, title: str, *, denied: bool) -> Failure:
        how = "though that was denied" if denied else "without asking"
        return Failure(
            kind="gate_bypassed",
            message=f"{self._agent} ran {title} {how}",
            hint="its processes were ended; look at what it changed, then `bridle doctor --gate`",
        )


def _ran(event: ToolFinished, kind: ToolClass) -> bool:
    if event.outcome == "failed" and kind == "shell":
        return any(_EXIT_CODE.search(p.text) for p in event.content if isinstance(p, Text))
    return event.outcome == "completed"


def _ids(call_id: str) -> set[str]:
    """That it may have been asked about by: `ID:1` is the second part of what was asked as one."""
    return {call_id, call_id.rpartition(":")[0] or call_id}
