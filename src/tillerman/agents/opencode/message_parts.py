"""Emits the parts of OpenCode's messages once: whole, or incrementally as they stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tillerman.agents.decoding.fields import Table, table, tables, text
from tillerman.agents.decoding.message_assembler import MessageAssembler
from tillerman.agents.opencode.run_usage import OpenCodeUsage
from tillerman.agents.opencode.tools import (
    OpenCodeToolCall,
    attachments,
    content,
    input_of,
    outcome,
    plan,
    running,
)
from tillerman.core.events import (
    Event,
    ToolFinished,
    ToolUpdated,
)
from tillerman.core.wire import AttachmentBytes

Said = Iterator[Event | AttachmentBytes]

QUIET = frozenset(
    {"step-start", "patch", "snapshot", "file", "agent", "subtask", "compaction", "retry"}
)


class Parts:
    """The parts of all turns; a part that was emitted completely is not emitted again."""

    def __init__(self, cwd: str, servers: Iterable[str]) -> None:
        self._cwd = cwd
        self._servers = tuple(servers)
        self._meter = OpenCodeUsage()
        self._messages = MessageAssembler()
        self._thought: set[str] = set()  # parts that are reasoning
        self._open: dict[str, OpenCodeToolCall] = {}
        self._closed: set[str] = set()
        self._shown: dict[str, tuple[object, ...]] = {}

    def knows(self, part: Table) -> bool:
        return text(part, "type") in {"text", "reasoning", "tool", "step-finish"} | QUIET

    def updated(self, part: Table, parent: str | None = None) -> Said:
        match text(part, "type"):
            case "text" | "reasoning" as kind:
                if kind == "reasoning":
                    self._thought.add(text(part, "id"))
                if part.get("synthetic") is not True and part.get("ignored") is not True:
                    streamed = self._messages.streamed(text(part, "id"))
                    yield from self.delta(text(part, "id"), text(part, "text")[streamed:], parent)
            case "tool":
                yield from self._tool(part, parent)
            case "step-finish" if parent is None:
                self._meter.step(part)

    def delta(self, part_id: str, words: str, parent: str | None = None) -> Iterator[Event]:
        thought = part_id in self._thought
        yield from self._messages.add(part_id, words, thought=thought, parent=parent)

    def call(self, call_id: str) -> OpenCodeToolCall | None:
        return self._open.get(call_id)

    def child_of(self, part: Table) -> tuple[str, str] | None:
        """The session of a subagent, and its parent call."""
        child = text(table(table(part, "state"), "metadata"), "sessionId")
        is_task = text(part, "type") == "tool" and text(part, "tool") == "task"
        return (child, text(part, "callID")) if is_task and child else None

    def finish(self) -> Iterator[Event]:
        """Ends the turn: cancels open calls and reports the usage.

        Later updates of these calls are ignored.
        """
        for call in self._open.values():
            yield ToolFinished(call_id=call.call_id, outcome="cancelled", parent=call.parent)
            self._closed.add(call.call_id)
        self._open.clear()
        self._shown.clear()
        yield self._meter.report()

    def _tool(self, part: Table, parent: str | None) -> Said:
        call_id, state = text(part, "callID"), table(part, "state")
        status = text(state, "status")
        if (
            not call_id
            or call_id in self._closed
            or status not in ("running", "completed", "error")
        ):
            return  # pending: its input is not complete yet
        call = self._open.get(call_id)
        if call is None:
            input = input_of(state)
            call = OpenCodeToolCall(call_id, text(part, "tool"), input, self._servers, parent)
            self._open[call_id] = call
            yield call.started(self._cwd)
        if status == "running":
            now = running(state)
            if now and now != self._shown.get(call_id):
                self._shown[call_id] = now
                yield ToolUpdated(call_id=call_id, content=now, parent=parent)
            return
        yield from attachments(state)
        ended = outcome(state)
        yield ToolFinished(
            call_id=call_id, outcome=ended, content=content(call, state), parent=parent
        )
        del self._open[call_id]
        self._closed.add(call_id)
        self._shown.pop(call_id, None)
        if call.tool == "TodoWrite" and ended == "completed":
            yield plan(tables(call.input, "todos"), parent)
