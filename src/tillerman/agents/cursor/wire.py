"""Decodes Cursor's stream-json, one process per turn, to events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tillerman.agents.cursor import failures, notices
from tillerman.agents.cursor.launch import launch
from tillerman.agents.cursor.line_objects import objects
from tillerman.agents.cursor.messages import CursorMessages
from tillerman.agents.cursor.tool_results import plan_of, result_of
from tillerman.agents.cursor.tools import CursorToolCall, call_id_of, call_of
from tillerman.agents.cursor.usage import reported
from tillerman.agents.cursor.withheld_tools import WithheldTools
from tillerman.agents.decoding.fields import Table, table, text
from tillerman.agents.stdio.line_decoder import unrecognized
from tillerman.agents.stdio.one_way_wire import OneWayWire
from tillerman.core.agent import Exit, Prompt, SessionSpec
from tillerman.core.events import (
    AgentReady,
    Event,
    Notice,
    ToolFinished,
    TurnEnded,
)
from tillerman.core.failure import Failure
from tillerman.core.wire import Launch, WireReply

Said = Iterator[Event]

# The CLI answers its queries itself, and the following tool calls show the outcome.
_QUIET = frozenset({"user", "interaction_query"})
_BARE = b"T: "  # older versions print some errors as plain text


class CursorWire(OneWayWire):
    def __init__(self, spec: SessionSpec, own_config: bytes = b"") -> None:
        self.plugin: Mapping[str, bytes] | None = None  # of the hooks that send requests
        self._cwd = str(spec.cwd)
        self._own_config = own_config
        self._last_notice = ""  # last notice about withheld tools
        self._begin(spec)

    # -- host to agent -----------------------------------------------------------------------

    def launch(self, spec: SessionSpec, prompt: Prompt | None) -> Launch:
        program = launch(spec, prompt or Prompt(""), self._own_config, self.plugin)
        self._begin(spec)
        return program

    def explain(self, exit: Exit, stderr: str) -> Failure | None:
        return failures.of_exit(exit, stderr, self._complaint)

    def _begin(self, spec: SessionSpec) -> None:
        asked = self.plugin is not None
        approval = WithheldTools.of(spec, asked=asked)
        self._notice = approval.notice(spec.approval.preset, asked=asked)
        self._withheld = set(approval.tools)
        self._resumed = spec.resume
        self._opened = ""
        self._complaint = ""
        self._speech = CursorMessages()
        self._calls: dict[str, CursorToolCall] = {}

    # -- agent to host -----------------------------------------------------------------------

    def decode(self, line: bytes) -> Iterable[Event | WireReply]:
        found = objects(line)
        if isinstance(found, str):
            return [self._bare(line, found)]
        return [event for one in found for event in self._line(one, line)]

    def _bare(self, line: bytes, why: str) -> Event:
        if not line.startswith(_BARE):
            return unrecognized(line, why)
        self._complaint = line.removeprefix(_BARE).decode("utf-8", "replace").strip()
        return Notice(level="error", kind="session", text=self._complaint)

    def _line(self, line: Table, raw: bytes) -> Said:
        match text(line, "type"):
            case "assistant":
                yield from self._speech.receive(line)
            case "thinking":
                yield from self._speech.think(line)
            case "tool_call":
                yield from self._tool(line, raw)
            case "system":
                yield from self._system(line, raw)
            case "connection":
                yield notices.connection(line)
            case "retry":
                self._speech.retry()
                if notice := notices.retry(line):
                    yield notice
            case "result":
                yield from self._result(line)
            case kind if kind not in _QUIET:
                yield unrecognized(raw, f"a line of type {kind!r}")

    def _system(self, line: Table, raw: bytes) -> Said:
        subtype = text(line, "subtype")
        if subtype == "init":
            self._opened = text(line, "session_id")
            yield AgentReady(native_id=self._opened, model=text(line, "model") or None)
            if self._notice and self._notice != self._last_notice:
                self._last_notice = self._notice
                yield Notice(level="warning", kind="settings", text=self._notice)
        elif notice := notices.system(line):
            yield notice
        else:
            yield unrecognized(raw, f"a system line of subtype {subtype!r}")

    def _tool(self, line: Table, raw: bytes) -> Said:
        self._speech.interrupt()
        found = call_of(line)
        if found is None:
            yield unrecognized(raw, "a tool call that names no tool")
            return
        call, beside = found
        if call.call_id not in self._calls:
            self._calls[call.call_id] = call
            yield call.started(self._cwd)
        if text(line, "subtype") == "completed":
            del self._calls[call.call_id]
            outcome, content = result_of(call, beside)
            yield ToolFinished(call_id=call_id_of(line), outcome=outcome, content=content)
            ran = outcome == "completed" or (outcome == "failed" and call.kind == "shell")
            if ran and call.kind in self._withheld:
                self._withheld.discard(call.kind)
                yield notices.used_all_the_same(call.kind)
            if outcome == "completed" and (plan := plan_of(call, beside)):
                yield plan

    def _result(self, line: Table) -> Said:
        failure = failures.of_result(line, self._complaint)
        if failure is None:
            yield from self._speech.result(text(line, "result"))
            if self._resumed and self._opened not in ("", self._resumed):
                failure = failures.other_conversation(self._resumed, self._opened)
        for call_id in list(self._calls):
            del self._calls[call_id]
            yield ToolFinished(call_id=call_id, outcome="cancelled")
        if usage := table(line, "usage"):
            yield reported(usage)
        yield TurnEnded(reason="failed" if failure else "completed", failure=failure)
