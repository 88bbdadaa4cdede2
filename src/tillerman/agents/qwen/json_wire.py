"""Translates between Qwen Code's bidirectional JSON-lines stream and events.

It has the format of Claude Code's stream but differs: an API error is text in a successful result,
an answer that changes a call's input is ignored, an answer after more than half a minute counts as
a deny, and in older versions an interrupt ends the process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Literal

from tillerman.agents.decoding.failure_reader import NO_REASON
from tillerman.agents.decoding.fields import Table, parse, storable, strings, table, tables, text
from tillerman.agents.qwen import failures, tool_calls
from tillerman.agents.qwen.launch import approval_mode, two_way
from tillerman.agents.qwen.messages import QwenMessages
from tillerman.agents.qwen.usage import QwenUsage
from tillerman.agents.stdio.line_decoder import unrecognized
from tillerman.core.agent import Exit, Mode, Prompt, SessionSpec
from tillerman.core.errors import Unsupported
from tillerman.core.events import (
    AgentReady,
    Answer,
    Event,
    Notice,
    PermissionRequested,
    PlanChanged,
    RequestAnswered,
    SettingsChanged,
    ToolFinished,
    ToolStarted,
    TurnEnded,
)
from tillerman.core.failure import Failure
from tillerman.core.version_check import standing
from tillerman.core.wire import Launch, WireReply

Said = Iterator[Event | WireReply]

_HONEST = ("0.24.0", "9999")  # versions whose result reports API errors
_QUIET = frozenset({"content_block_start", "content_block_stop", "message_stop", "goal_state"})


class QwenStreamWire:
    lifetime: ClassVar[Literal["session", "turn"]] = "session"

    def __init__(self, spec: SessionSpec) -> None:
        self._cwd = str(spec.cwd)
        self._native_id, self._model = "", ""
        self._commands: tuple[str, ...] = ()
        self._honest = False
        self._sent = 0
        self._changes: dict[str, SettingsChanged | None] = {}  # requested, not confirmed yet
        self._speeches: dict[str | None, QwenMessages] = {None: QwenMessages(None)}
        self._calls: dict[str, ToolStarted] = {}
        self._open: dict[str, str] = {}  # requests, and their calls
        self._denied: set[str] = set()  # calls
        self._cancelling = False
        self._meter = QwenUsage(resumed=bool(spec.resume))

    # -- host to agent -----------------------------------------------------------------------

    def launch(self, spec: SessionSpec, prompt: Prompt | None) -> Launch:
        return two_way(spec)

    def greet(self) -> Iterable[dict[str, Any]]:
        """Sends `initialize`; without it the first call that needs approval waits forever."""
        return [self._request({"subtype": "initialize", "hooks": None})]

    def prompt(self, prompt: Prompt) -> Iterable[dict[str, Any]]:
        if prompt.files:
            raise Unsupported("qwen", "attachments over stream-json", hint="use its ACP surface")
        self._cancelling = False
        message = {"role": "user", "content": prompt.text}
        return [{"type": "user", "message": message, "parent_tool_use_id": None, "session_id": ""}]

    def answer(self, request_id: str, answer: Answer) -> Iterable[dict[str, Any]]:
        call_id = self._open.pop(request_id, None)
        if call_id is None:
            return []
        note = answer.note or "The user denied this."
        if answer.option != "deny" and answer.input is not None:
            note = f"The user wants this call with different input: {storable(answer.input)}"
        elif answer.option != "deny":
            return [_response(request_id, {"behavior": "allow"})]
        self._denied.add(call_id)
        return [_response(request_id, {"behavior": "deny", "message": note})]

    def cancel(self) -> Iterable[dict[str, Any]]:
        self._cancelling = True
        return [self._request({"subtype": "interrupt"})]

    def configure(self, model: str | None, mode: Mode | None) -> Iterable[dict[str, Any]]:
        asked = []
        if model:
            body = {"subtype": "set_model", "model": model}
            asked.append(self._request(body, SettingsChanged(model=model)))
        if mode:
            body = {"subtype": "set_permission_mode", "mode": approval_mode(mode)}
            asked.append(self._request(body, SettingsChanged(mode=mode)))
        return asked

    def _request(self, body: Table, then: SettingsChanged | None = None) -> dict[str, Any]:
        self._sent += 1
        request_id = f"tillerman_{self._sent}"
        self._changes[request_id] = then
        return {"type": "control_request", "request_id": request_id, "request": body}

    # -- agent to host -----------------------------------------------------------------------

    def decode(self, line: bytes) -> Iterable[Event | WireReply]:
        return list(self._line(line))

    def explain(self, exit: Exit, stderr: str) -> Failure | None:
        """The failure of an exit without a result."""
        return failures.TABLE.read_exit(exit.code, stderr)

    def _line(self, raw: bytes) -> Said:
        line = parse(raw)
        if isinstance(line, str):
            yield unrecognized(raw, line)
            return
        match kind := text(line, "type"):
            case "system":
                yield from self._system(line, raw)
            case "stream_event":
                yield from self._stream(line, raw)
            case "assistant":
                yield from self._assistant(line, raw)
            case "user":
                yield from self._user(line)
            case "result":
                yield from self._result(line)
            case "control_request":
                yield from self._asked(text(line, "request_id"), table(line, "request"), raw)
            case "control_response":
                yield from self._answered(table(line, "response"))
            case _:
                yield unrecognized(raw, f"a line of type {kind!r}")

    def _system(self, line: Table, raw: bytes) -> Said:
        if (subtype := text(line, "subtype")) != "init":
            yield unrecognized(raw, f"a system line of subtype {subtype!r}")
            return
        native_id, model = text(line, "session_id"), text(line, "model")
        version = text(line, "qwen_code_version") or None
        self._honest = version is not None and standing(_HONEST, version) == "tested"
        if native_id and (native_id, model) != (self._native_id, self._model):
            self._native_id, self._model = native_id, model
            yield AgentReady(native_id=native_id, model=model or None, version=version)
        commands = tuple(strings(line, "slash_commands"))
        if commands and commands != self._commands:
            self._commands = commands
            yield SettingsChanged(commands=commands)

    def _stream(self, line: Table, raw: bytes) -> Said:
        speech = self._speech(text(line, "parent_tool_use_id") or None)
        event = table(line, "event")
        match kind := text(event, "type"):
            case "message_start":
                speech.begin(text(table(event, "message"), "id"))
            case "content_block_delta":
                delta = table(event, "delta")
                for word in ("text", "thinking"):
                    if message := text(delta, word):
                        yield from speech.receive(word, message)
            case _ if kind not in _QUIET:
                yield unrecognized(raw, f"a stream event of type {kind!r}")

    def _assistant(self, line: Table, raw: bytes) -> Said:
        parent = text(line, "parent_tool_use_id") or None
        message = table(line, "message")
        speech = self._speech(parent)
        if parent is None:
            self._meter.call(table(message, "usage"))
        for block in tables(message, "content"):
            match kind := text(block, "type"):
                case "text" | "thinking":
                    yield from speech.whole(text(message, "id"), kind, text(block, kind))
                case "tool_use":
                    yield from speech.release()
                    id, name, input = text(block, "id"), text(block, "name"), table(block, "input")
                    self._calls[id] = tool_calls.started(id, name, input, parent, self._cwd)
                    yield self._calls[id]
                case _:
                    yield unrecognized(raw, f"a block of type {kind!r}")

    def _user(self, line: Table) -> Said:
        for block in tables(table(line, "message"), "content"):
            call = self._calls.pop(text(block, "tool_use_id"), None)
            if text(block, "type") != "tool_result" or call is None:
                continue
            yield from self._withdraw(call.call_id)
            denied = call.call_id in self._denied
            outcome = tool_calls.outcome(call, block, denied=denied, cancelling=self._cancelling)
            self._denied.discard(call.call_id)
            given = tool_calls.content(call, text(block, "content"), done=outcome == "completed")
            yield ToolFinished(
                call_id=call.call_id, outcome=outcome, content=tuple(given), parent=call.parent
            )
            if call.tool == "TodoWrite" and outcome == "completed":
                yield PlanChanged(steps=tuple(tool_calls.steps(call.input)), parent=call.parent)

    def _withdraw(self, call_id: str) -> Said:
        """Withdraws the requests about a call that is over."""
        for request_id in [one for one, about in self._open.items() if about == call_id]:
            del self._open[request_id]
            yield RequestAnswered(request_id=request_id, answer=Answer("deny"), by="withdrawn")

    # -- requests ----------------------------------------------------------------------------

    def _asked(self, request_id: str, request: Table, raw: bytes) -> Said:
        subtype = text(request, "subtype")
        if not request_id:
            yield unrecognized(raw, "a request without an id")
        elif subtype != "can_use_tool":
            body = {"subtype": "error", "request_id": request_id, "error": "not supported"}
            yield WireReply({"type": "control_response", "response": body})
            yield unrecognized(raw, f"a request of subtype {subtype!r} was refused")
        else:
            yield self._ask(request_id, request)

    def _ask(self, request_id: str, request: Table) -> Event:
        call_id, name = text(request, "tool_use_id"), text(request, "tool_name")
        known = self._calls.get(call_id)
        parent = known.parent if known else None
        call = tool_calls.started(call_id, name, table(request, "input"), parent, self._cwd)
        self._open[request_id] = call_id
        return PermissionRequested(
            request_id=request_id,
            tool=call.tool,
            title=call.title,
            input=call.input,
            paths=call.paths,
            call_id=call_id or None,
            parent=parent,
        )

    def _answered(self, response: Table) -> Said:
        change = self._changes.pop(text(response, "request_id"), None)
        if text(response, "subtype") == "error":
            why = text(response, "error") or "the agent refused a request"
            yield Notice(level="error", kind="settings", text=why)
        elif change:
            yield change

    # -- the end of a turn -------------------------------------------------------------------

    def _result(self, line: Table) -> Said:
        speech = self._speech(None)
        failed = line.get("is_error") is True or text(line, "subtype").startswith("error")
        if self._honest and not failed:
            yield from speech.release()
        reported = speech.error()
        for call in list(self._calls.values()):
            yield from self._withdraw(call.call_id)
            yield ToolFinished(call_id=call.call_id, outcome="cancelled", parent=call.parent)
        self._calls.clear()
        self._denied.clear()
        yield self._meter.result(table(line, "usage"))
        if failed and self._cancelling:
            yield TurnEnded(reason="cancelled")
        elif failed or reported:
            words = reported or text(table(line, "error"), "message") or NO_REASON
            yield TurnEnded(reason="failed", failure=failures.failure(words))
        else:
            yield TurnEnded(reason="completed")

    def _speech(self, parent: str | None) -> QwenMessages:
        if parent not in self._speeches:
            self._speeches[parent] = QwenMessages(parent)
        return self._speeches[parent]


def _response(request_id: str, response: Table) -> dict[str, Any]:
    body = {"subtype": "success", "request_id": request_id, "response": response}
    return {"type": "control_response", "response": body}
