"""Decodes `codex exec --json`, for versions without an app-server: one process per turn.

It reports whole items without deltas, and nothing about a refused patch, a refused escalation or a
command that the sandbox prevented from writing. Errors are text without a code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tillerman.agents.codex import failures, notices
from tillerman.agents.codex.exec.exec_launch import exec_launch
from tillerman.agents.codex.messages import CodexMessages
from tillerman.agents.codex.thread_items.items import Items
from tillerman.agents.codex.usage import used
from tillerman.agents.decoding.fields import Table, parse, storable, table, tables, text
from tillerman.agents.decoding.token_meter import TokenCounts
from tillerman.agents.stdio.line_decoder import unrecognized
from tillerman.agents.stdio.one_way_wire import OneWayWire
from tillerman.core.agent import Exit, Prompt, SessionSpec
from tillerman.core.events import (
    AgentReady,
    Event,
    Notice,
    PlanChanged,
    PlanStep,
    TurnEnded,
)
from tillerman.core.failure import Failure
from tillerman.core.wire import AttachmentBytes, Launch, WireReply

Said = Iterator[Event | WireReply | AttachmentBytes]

_KINDS = {
    "command_execution": "commandExecution",
    "file_change": "fileChange",
    "mcp_tool_call": "mcpToolCall",
    "web_search": "webSearch",
    "collab_tool_call": "collabAgentToolCall",
}
_SPEECH = {"agent_message": "agentMessage", "reasoning": "reasoning"}


class CodexExecWire(OneWayWire):
    def __init__(self, spec: SessionSpec) -> None:
        self._spec = spec
        self._turn = 0
        self._speech = CodexMessages()
        self._items = Items(str(spec.cwd))
        # The usage of a resumed thread before this conversation is not reported.
        self._total = TokenCounts() if spec.resume is None else None
        self._error = ""

    # -- host to agent -----------------------------------------------------------------------

    def launch(self, spec: SessionSpec, prompt: Prompt | None) -> Launch:
        launch = exec_launch(spec, prompt)
        self._turn += 1
        self._error = ""
        return launch

    def explain(self, exit: Exit, stderr: str) -> Failure | None:
        """Decodes errors before the first event, which are on stderr only."""
        words = [line.strip() for line in stderr.splitlines() if line.startswith("Error")]
        if exit.clean or not words:
            return None
        return failures.refusal("codex exec", words[-1].removeprefix("Error:").strip())

    # -- agent to host -----------------------------------------------------------------------

    def decode(self, line: bytes) -> Iterable[Event | WireReply | AttachmentBytes]:
        message = parse(line)
        if isinstance(message, str):
            return [unrecognized(line, message)]
        return self._notification(message, line)

    def _notification(self, message: Table, line: bytes) -> Said:
        item = table(message, "item")
        match text(message, "type"):
            case "thread.started":
                if native_id := text(message, "thread_id"):
                    yield AgentReady(native_id=native_id)
            case "turn.started":
                pass
            case "item.started" | "item.updated":
                yield from self._item(item, line, whole=False)
            case "item.completed":
                yield from self._item(item, line, whole=True)
            case "turn.completed":
                yield from self._used(table(message, "usage"))
                yield from self._end(TurnEnded(reason="completed", result=self._result()))
            case "turn.failed":
                why = text(table(message, "error"), "message") or self._error
                failure = failures.from_words(why)
                yield from self._end(TurnEnded(reason="failed", failure=failure))
            case "error":
                self._error = text(message, "message")
                if self._error.startswith("Reconnecting"):
                    yield notices.retry({"message": self._error}, None)
            case kind:
                yield unrecognized(line, f"a line of type {kind!r}")

    def _item(self, item: Table, line: bytes, *, whole: bool) -> Said:
        kind = text(item, "type")
        if kind in _KINDS:
            same = self._like_the_app_servers(item, _KINDS[kind])
            receive = self._items.completed if whole else self._items.started
            yield from receive(same, "", None)
        elif kind in _SPEECH:
            if whole:
                yield from self._speech.whole(self._speech_item(item, _SPEECH[kind]), None)
        elif kind == "todo_list":
            yield PlanChanged(steps=tuple(_step(step) for step in tables(item, "items")))
        elif kind == "error":
            if message := text(item, "message"):
                yield Notice(level="warning", kind="session", text=message)
        else:
            yield unrecognized(line, f"an item of type {kind!r}")

    def _like_the_app_servers(self, item: Table, kind: str) -> Table:
        """Converts an item to the app-server's format. Ids restart in each process."""
        same = {**item, "type": kind, "id": self._id(item)}
        same["aggregatedOutput"] = item.get("aggregated_output")
        same["exitCode"] = item.get("exit_code")
        return same

    def _speech_item(self, item: Table, kind: str) -> Table:
        message = text(item, "text")
        return {"type": kind, "id": self._id(item), "text": message, "summary": [message]}

    def _id(self, item: Table) -> str:
        return f"{self._turn}:{text(item, 'id')}"

    def _result(self) -> Any:
        if self._spec.output_schema is None:
            return None
        parsed = parse(self._speech.last.encode())
        return storable(parsed) if isinstance(parsed, dict) else None

    def _used(self, usage: Table) -> Said:
        total = used(usage)
        if self._total is not None:
            yield total.since(self._total).reported()
        self._total = total

    def _end(self, end: TurnEnded) -> Said:
        yield from self._items.drop(run_on=False)
        self._speech.end_turn()
        yield end


def _step(step: Table) -> PlanStep:
    return PlanStep(text(step, "text"), "completed" if step.get("completed") is True else "pending")
