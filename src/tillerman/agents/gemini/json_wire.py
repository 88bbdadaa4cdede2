"""Decodes Gemini CLI's one-way JSON-lines stream: one process per turn.

It reports no thoughts and cannot ask. After a broken stream the answer is streamed again from the
beginning without a marker; and an end without a `result` is the only sign of a signal.
"""

from __future__ import annotations

from collections.abc import Iterator

from tillerman.agents.acp.tools import vocabulary
from tillerman.agents.decoding.fields import Table, parse, storable, table, text
from tillerman.agents.gemini import failures
from tillerman.agents.gemini.launch import ROW, one_turn, unasked
from tillerman.agents.gemini.usage import reported
from tillerman.agents.stdio.line_decoder import unrecognized
from tillerman.agents.stdio.one_way_wire import OneWayWire
from tillerman.core import tools
from tillerman.core.agent import Exit, Prompt, SessionSpec
from tillerman.core.errors import Unsupported
from tillerman.core.events import (
    AgentReady,
    Content,
    Diff,
    Event,
    MessageChunk,
    Notice,
    Text,
    ToolFinished,
    ToolStarted,
    TurnEnded,
)
from tillerman.core.failure import Failure
from tillerman.core.wire import Launch

_WITHHELD = {  # by approval mode
    "default": "Gemini CLI cannot request approval over stream-json: edits and commands disabled",
    "auto_edit": "Gemini CLI cannot request approval over stream-json: commands disabled",
    "yolo": "Gemini CLI cannot request approval over stream-json: all its tools run unasked",
}
_DENIED = frozenset({"policy_violation", "stop_execution"})
_PLANNING = "Access denied: plan path"


class GeminiStreamWire(OneWayWire):
    def __init__(self, spec: SessionSpec) -> None:
        self._cwd = str(spec.cwd)
        self._withheld = _WITHHELD[unasked(spec)]
        self._calls: dict[str, ToolStarted] = {}
        self._messages = 0
        self._speaking = False
        self._error = ""

    # -- host to agent -----------------------------------------------------------------------

    def launch(self, spec: SessionSpec, prompt: Prompt | None) -> Launch:
        prompt = prompt or Prompt("")
        if prompt.files:
            raise Unsupported("gemini", "attachments over stream-json", hint="use its ACP surface")
        self._calls, self._speaking, self._error = {}, False, ""
        return one_turn(spec, prompt)

    # -- agent to host -----------------------------------------------------------------------

    def decode(self, line: bytes) -> Iterator[Event]:
        parsed = parse(line)
        if isinstance(parsed, str):
            yield unrecognized(line, parsed)
            return
        match kind := text(parsed, "type"):
            case "init":
                if native_id := text(parsed, "session_id"):
                    yield AgentReady(native_id=native_id, model=text(parsed, "model") or None)
                if self._withheld:
                    yield Notice(level="warning", kind="settings", text=self._withheld)
                    self._withheld = ""
            case "message":
                yield from self._message(parsed)
            case "tool_use":
                yield from self._call(parsed)
            case "tool_result":
                yield from self._result(parsed)
            case "error":
                yield from self._complaint(parsed)
            case "result":
                yield from self._end(parsed)
            case _:
                yield unrecognized(line, f"a line of type {kind!r}")

    def explain(self, exit: Exit, stderr: str) -> Failure | None:
        """The failure of an exit without a result."""
        return failures.TABLE.read_exit(exit.code, stderr)

    def _message(self, parsed: Table) -> Iterator[Event]:
        words = text(parsed, "content")
        if text(parsed, "role") == "user" or not words:
            return
        if not self._speaking:
            self._speaking = True
            self._messages += 1
        yield MessageChunk(message_id=str(self._messages), text=words)

    def _call(self, parsed: Table) -> Iterator[Event]:
        self._speaking = False
        call_id, name = text(parsed, "tool_id"), text(parsed, "tool_name")
        input = storable(table(parsed, "parameters"))
        tool = vocabulary(name, "", input, ROW)
        call = ToolStarted(
            call_id=call_id,
            tool=tool,
            name=name,
            title=tools.title(tool, input, name=name.removeprefix("mcp_"), cwd=self._cwd),
            input=input,
            paths=tools.paths_of(input),
        )
        self._calls[call_id] = call
        yield call

    def _result(self, parsed: Table) -> Iterator[Event]:
        call = self._calls.pop(text(parsed, "tool_id"), None)
        if call is None:
            return
        if text(parsed, "status") == "success":
            yield ToolFinished(
                call_id=call.call_id,
                outcome="completed",
                content=tuple(_content(call, text(parsed, "output"))),
            )
            return
        error = table(parsed, "error")
        words = text(error, "message") or text(parsed, "output")
        yield ToolFinished(
            call_id=call.call_id,
            outcome="denied" if _denied(call, text(error, "type"), words) else "failed",
            content=(Text(words),) if words else (),
        )

    def _complaint(self, parsed: Table) -> Iterator[Event]:
        """Stores an `error` as the reason of a failed result; a warning becomes a notice."""
        words = text(parsed, "message")
        if text(parsed, "severity") == "error" or words.startswith(failures.LOOP):
            self._error = words
        elif words:
            yield Notice(level="warning", kind="limit", text=words)

    def _end(self, parsed: Table) -> Iterator[Event]:
        for call_id in self._calls:
            yield ToolFinished(call_id=call_id, outcome="cancelled")
        self._calls = {}
        yield reported(table(parsed, "stats"))
        if text(parsed, "status") == "success" and not self._error:
            yield TurnEnded(reason="completed")
        else:
            yield TurnEnded(
                reason="failed", failure=failures.of_result(table(parsed, "error"), self._error)
            )


def _denied(call: ToolStarted, kind: str, words: str) -> bool:
    """Whether the call was denied; known tools are missing if they cannot be asked about."""
    removed = kind == "tool_not_registered" and call.tool in tools.TOOLS
    return kind in _DENIED or removed or words.startswith(_PLANNING)


def _content(call: ToolStarted, output: str) -> Iterator[Content]:
    """The content of a result; a change is read from the input, since the output lacks it."""
    old, new = call.input.get("old_string"), call.input.get("new_string", call.input.get("content"))
    if call.tool in tools.WRITES and call.paths and isinstance(new, str):
        yield Diff(call.paths[0], old=old if isinstance(old, str) else None, new=new)
    elif output:
        yield Text(output)
