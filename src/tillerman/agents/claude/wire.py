"""Translates between Claude Code's bidirectional JSON-lines stream and events."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, Literal

from msgspec.structs import replace

from tillerman.agents.claude import failures, notices
from tillerman.agents.claude.background import ClaudeBackground
from tillerman.agents.claude.fast_path import piece
from tillerman.agents.claude.launch import launch, user_message
from tillerman.agents.claude.messages import ClaudeMessages
from tillerman.agents.claude.requests import (
    CALLBACK,
    CALLED_BACK,
    HOOK_TIMEOUT,
    ClaudeRequests,
    error,
)
from tillerman.agents.claude.settings import ClaudeSettings
from tillerman.agents.claude.todo_list import CHANGES_PLAN, ClaudeTodoList
from tillerman.agents.claude.tools import ClaudeToolCall, ClaudeToolResult, call_of, results
from tillerman.agents.claude.usage import ClaudeUsage
from tillerman.agents.decoding.fields import Table, count, parse, storable, table, tables, text
from tillerman.agents.stdio.line_decoder import unrecognized
from tillerman.core.agent import Mode, Prompt, SessionSpec
from tillerman.core.events import (
    Answer,
    Event,
    MessageChunk,
    Notice,
    SettingsChanged,
    ToolFinished,
    TurnEnded,
    TurnStarted,
)
from tillerman.core.wire import AttachmentBytes, Launch, WireReply

Said = Iterator[Event | WireReply | AttachmentBytes]


class ClaudeWire:
    """One conversation.

    A turn is open from a prompt, or from the agent's own start, until a `result`; a finished
    background task makes the agent start one.
    """

    lifetime: ClassVar[Literal["session", "turn"]] = "session"

    def __init__(self, spec: SessionSpec, clock: Callable[[], float] = time.time) -> None:
        self._cwd = str(spec.cwd)
        self._clock = clock
        self._turn: Literal["prompt", "agent"] | None = None
        self._deferred: TurnEnded | None = None
        self._steers: set[str] = set()  # prompts sent within a turn that may still be queued
        self._speeches: dict[str | None, ClaudeMessages] = {None: ClaudeMessages(None)}
        self._plans: dict[str | None, ClaudeTodoList] = {}
        self._calls: dict[str, ClaudeToolCall] = {}
        self._settings = ClaudeSettings(spec.mode)
        self._background = ClaudeBackground()
        self._requests = ClaudeRequests(self._cwd, self._calls, self._background, self._settings)
        self._meter = ClaudeUsage()
        self._error: failures.ApiError | None = None
        self._retry_after: float | None = None

    # -- host to agent -----------------------------------------------------------------------

    def launch(self, spec: SessionSpec, prompt: Prompt | None) -> Launch:
        return launch(spec)

    def greet(self) -> Iterable[dict[str, Any]]:
        hook = {"matcher": CALLED_BACK, "hookCallbackIds": [CALLBACK], "timeout": HOOK_TIMEOUT}
        body = {"subtype": "initialize", "hooks": {"PreToolUse": [hook]}}
        return [self._settings.request(body)]

    def prompt(self, prompt: Prompt) -> Iterable[dict[str, Any]]:
        message = user_message(prompt)
        if self._turn is None:
            self._turn = "prompt"
        else:
            from uuid import uuid4

            message["uuid"] = str(uuid4())
            self._steers.add(message["uuid"])
        return [message]

    def answer(self, request_id: str, answer: Answer) -> Iterable[dict[str, Any]]:
        return self._requests.answer(request_id, answer)

    def cancel(self) -> Iterable[dict[str, Any]]:
        """Withdraws queued prompts first: they would start a new turn."""
        bodies = [{"subtype": "cancel_async_message", "message_uuid": id} for id in self._steers]
        bodies.append({"subtype": "interrupt"})
        return [self._settings.request(body) for body in bodies]

    def configure(self, model: str | None, mode: Mode | None) -> Iterable[dict[str, Any]]:
        return list(self._settings.configure(model, mode))

    # -- agent to host -----------------------------------------------------------------------

    def decode(self, line: bytes) -> Iterable[Event | WireReply | AttachmentBytes]:
        received = piece(line)
        if received is None:
            return list(self._line(line))
        if not received.kind:
            return ()
        events: list[Event | WireReply | AttachmentBytes] = (
            list(self._wake()) if self._turn is received.parent is None else []
        )
        speech = self._speech(received.parent)
        events.extend(speech.receive(received.index, received.kind, received.text))
        return events

    def _line(self, raw: bytes) -> Said:
        line = parse(raw)
        if isinstance(line, str):
            yield unrecognized(raw, line)
            return
        match text(line, "type"):
            case "stream_event":
                yield from self._stream(line)
            case "assistant":
                yield from self._assistant(line, raw)
            case "user":
                yield from self._user(line)
            case "system":
                yield from self._system(line, raw)
            case "result":
                yield from self._result(line)
            case "control_request":
                yield from self._asked(line, raw)
            case "control_response":
                yield from self._settings.answered(table(line, "response"))
            case "control_cancel_request":
                yield from self._requests.withdrawn(text(line, "request_id"))
            case "command_lifecycle":
                if text(line, "state") != "queued":
                    self._steers.discard(text(line, "command_uuid"))
            case "rate_limit_event":
                yield from self._limit(table(line, "rate_limit_info"))
            case kind if kind not in notices.QUIET_TYPES:
                yield unrecognized(raw, f"a line of type {kind!r}")

    def _stream(self, line: Table) -> Said:
        parent = text(line, "parent_tool_use_id") or None
        speech = self._speech(parent)
        event = table(line, "event")
        match text(event, "type"):
            case "message_start":
                message = table(event, "message")
                if parent is None:
                    yield from self._wake()
                    yield from self._meter.message(table(message, "usage"))
                yield from speech.begin(text(message, "id"))
            case "content_block_delta":  # not decoded by the fast path
                for kind in ("text", "thinking"):
                    if words := text(table(event, "delta"), kind):
                        yield from speech.receive(count(event, "index"), kind, words)
            case "message_stop":
                abandoned = line.get("abandoned_blocks")
                if isinstance(abandoned, dict):
                    speech.abandon(count(abandoned, "from_block_index"))
                speech.stop()

    def _assistant(self, line: Table, raw: bytes) -> Said:
        parent = text(line, "parent_tool_use_id") or None
        message = table(line, "message")
        message_id = text(message, "id")
        speech = self._speech(parent)
        blocks = tables(message, "content")
        if parent is None:
            yield from self._wake()
        if word := text(line, "error"):
            yield from self._api_error(word, blocks, parent)
            return
        for block in blocks:
            match kind := text(block, "type"):
                case "text" | "thinking":
                    yield from speech.whole(message_id, kind, text(block, kind))
                case "tool_use" | "server_tool_use" | "mcp_tool_use":
                    speech.other(message_id)
                    call = call_of(block, parent)
                    self._calls[call.call_id] = call
                    yield self._begun(call)
                case "redacted_thinking":
                    speech.other(message_id)
                case _:
                    speech.other(message_id)
                    yield unrecognized(raw, f"a block of type {kind!r}")

    def _begun(self, call: ClaudeToolCall) -> Event:
        """Marks a write to the agent's own plan, which is allowed without a request."""
        begun = call.started(self._cwd)
        if self._settings.mode == "plan" and call.lists_tasks:
            return replace(begun, tool="SavePlan")
        return begun

    def _api_error(self, word: str, blocks: list[Table], parent: str | None) -> Said:
        """Stores the CLI's error text, which is reported at the end of the turn."""
        message = "\n".join(filter(None, (text(block, "text") for block in blocks))) or word
        if parent is None:
            self._error = failures.ApiError(word, message)
        else:
            yield Notice(level="error", kind="subagent", text=message, parent=parent)

    def _user(self, line: Table) -> Said:
        parent = text(line, "parent_tool_use_id") or None
        for result in results(line):
            yield from self._tool_result(result, parent)

    def _tool_result(self, result: ClaudeToolResult, parent: str | None) -> Said:
        call = self._calls.pop(result.call_id, None)
        outcome = result.outcome(result.call_id in self._requests.denied)
        self._requests.call_ended(result.call_id)
        yield from result.pictures()
        yield ToolFinished(
            call_id=result.call_id,
            outcome=outcome,
            content=result.content(call),
            parent=call.parent if call else parent,
        )
        if call and call.name in CHANGES_PLAN and outcome == "completed":
            plan = self._plans.setdefault(call.parent, ClaudeTodoList(call.parent))
            if changed := plan.follow(call, result):
                yield changed
        yield from self._background.call_ended(result.call_id)

    def _system(self, line: Table, raw: bytes) -> Said:
        match subtype := text(line, "subtype"):
            case "init":
                yield from self._wake()
                yield from self._settings.told(line)
            case "status":
                yield from self._settings.reported_mode(line)
            case "task_started":
                yield from self._background.started(line)
            case "task_notification":
                yield from self._background.notified(line)
            case "background_tasks_changed":
                yield from self._background.listed(line)
            case "session_state_changed":
                yield from self._state(text(line, "state"))
            case "permission_denied":
                self._requests.denied.add(text(line, "tool_use_id"))
            case "session_title_changed":
                if title := text(line, "title"):
                    yield SettingsChanged(title=title)
            case "local_command_output":
                message = text(line, "content")
                self._speech(None).said = True
                yield MessageChunk(message_id=text(line, "uuid"), text=message)
            case "api_retry":
                retry = notices.retry(line)
                self._retry_after = retry.after
                yield retry.notice
            case _ if notice := notices.notice(subtype, line):
                yield notice
            case _ if subtype not in notices.QUIET_SUBTYPES:
                yield unrecognized(raw, f"a system line of subtype {subtype!r}")

    def _state(self, state: str) -> Said:
        if state == "idle" and self._deferred:
            yield from self._end(self._deferred)
        yield from self._background.state(state)

    def _wake(self) -> Said:
        """Activity of the main agent: starts a turn if none is open."""
        if self._turn is None:
            self._turn = "agent"
            yield TurnStarted(origin="agent")
            yield from self._background.woke()

    # -- the end of a turn -------------------------------------------------------------------

    def _result(self, line: Table) -> Said:
        speech = self._speech(None)
        unreported = self._turn is not None and not speech.said
        yield from self._wake()
        end = self._ending(line, speech)
        message = text(line, "result")
        if end.reason == "completed" and message and unreported:
            yield MessageChunk(message_id=text(line, "uuid"), text=message)
        yield from self._background.served(line)
        self._meter.count(line, self._settings.model)
        if self._goes_on(line, end):
            self._deferred = end
        else:
            yield from self._end(end)

    def _goes_on(self, line: Table, end: TurnEnded) -> bool:
        """Whether prompts sent within the turn are unanswered, so that another result follows.

        If the agent has already read them without a report, it becomes idle next.
        """
        if self._turn == "prompt" and text(table(line, "origin"), "kind") == "task-notification":
            return True  # the agent's own turn was running when the prompt came
        return bool(self._steers) and self._background.reports_idle and end.reason != "cancelled"

    def _ending(self, line: Table, speech: ClaudeMessages) -> TurnEnded:
        if text(line, "terminal_reason").startswith("aborted"):
            return TurnEnded(reason="cancelled")
        if failures.failed(line, self._error):
            cut = speech.broken.length > 0 or speech.broken_off
            why = failures.failure(line, self._error, retry_after=self._retry_after, cut=cut)
            return TurnEnded(reason="failed", failure=why)
        message = text(line, "result")
        if (
            message
            and speech.broken.equals(message)
            and not count(table(line, "usage"), "output_tokens")
        ):
            return TurnEnded(reason="failed", failure=failures.taken_for_whole(message))
        return TurnEnded(reason="completed", result=storable(line.get("structured_output")))

    def _end(self, end: TurnEnded) -> Said:
        self._turn = None
        self._deferred = None
        self._steers.clear()
        self._error = None
        self._retry_after = None
        if end.reason == "completed":
            yield from self._speech(None).replaced()
        self._speech(None).end_turn()
        yield from self._drop_calls(None)
        yield self._meter.report()
        yield end

    def _drop_calls(self, parent: str | None) -> Said:
        """Cancels calls that are open at the end of a turn, and their subagents' calls."""
        for call in [call for call in self._calls.values() if call.parent == parent]:
            yield from self._drop_calls(call.call_id)
            if self._calls.pop(call.call_id, None):
                self._requests.call_ended(call.call_id)
                yield ToolFinished(call_id=call.call_id, outcome="cancelled", parent=parent)

    # -- requests ----------------------------------------------------------------------------

    def _asked(self, line: Table, raw: bytes) -> Said:
        request_id, request = text(line, "request_id"), table(line, "request")
        if not request_id:
            yield unrecognized(raw, "a request without an id")
            return
        match subtype := text(request, "subtype"):
            case "hook_callback":
                yield from self._requests.callback(request_id, request, raw)
            case "can_use_tool":
                yield from self._requests.permission(request_id, request)
            case _:
                yield WireReply(error(request_id, f"{subtype!r} is not supported"))
                if subtype not in notices.REFUSED_REQUESTS:
                    yield unrecognized(raw, f"a request of subtype {subtype!r} was refused")

    def _limit(self, info: Table) -> Said:
        limit = notices.limit(info, self._clock())
        if limit:
            self._retry_after = limit.after
            yield limit.notice

    def _speech(self, parent: str | None) -> ClaudeMessages:
        speech = self._speeches.get(parent)
        if speech is None:
            speech = self._speeches[parent] = ClaudeMessages(parent)
        return speech
