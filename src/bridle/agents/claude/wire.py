"""Claude Code's two-way stream of JSON lines, translated to events and back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, Literal

from bridle.agents.claude import failures, notices, requests
from bridle.agents.claude.background import Background
from bridle.agents.claude.launch import launch, permission_mode, user_message
from bridle.agents.claude.lines import Table, count, delta, parse, storable, strings, table, text
from bridle.agents.claude.plan import Plan
from bridle.agents.claude.requests import Requests
from bridle.agents.claude.speech import Speech
from bridle.agents.claude.tools import Call, Result, call_of, results
from bridle.agents.claude.usage import Meter
from bridle.core.agent import Launch, Mode, Prompt, Reply, SessionSpec
from bridle.core.events import (
    AgentReady,
    Answer,
    Event,
    MessageChunk,
    Notice,
    SettingsChanged,
    ToolFinished,
    TurnEnded,
    TurnStarted,
    Unrecognized,
)

Said = Iterator[Event | Reply]


class ClaudeWire:
    """One conversation. A turn is open from a prompt, or from the agent's waking by itself,
    until a `result`; a finished background task wakes it."""

    lifetime: ClassVar[Literal["session", "turn"]] = "session"

    def __init__(self, spec: SessionSpec, clock: Callable[[], float] = time.time) -> None:
        self._cwd = str(spec.cwd)
        self._mode: Mode = spec.mode
        self._clock = clock
        self._turn: Literal["prompt", "agent"] | None = None
        self._deferred: TurnEnded | None = None
        self._ready: tuple[str, str] = ("", "")
        self._commands: tuple[str, ...] = ()
        self._speeches: dict[str | None, Speech] = {None: Speech(None)}
        self._plans: dict[str | None, Plan] = {}
        self._calls: dict[str, Call] = {}
        self._requests = Requests(self._cwd, self._calls)
        self._requests.planning = spec.mode == "plan"
        self._background = Background()
        self._meter = Meter()
        self._error: failures.ApiError | None = None
        self._retry_after: float | None = None
        self._sent = 0
        self._waiting: dict[str, SettingsChanged | None] = {}  # our own requests, by id

    # -- host to agent -----------------------------------------------------------------------

    def launch(self, spec: SessionSpec, prompt: Prompt | None) -> Launch:
        return launch(spec)

    def greet(self) -> Iterable[dict[str, Any]]:
        hook = {
            "matcher": None,
            "hookCallbackIds": [requests.CALLBACK],
            "timeout": requests.PATIENCE,
        }
        yield self._control({"subtype": "initialize", "hooks": {"PreToolUse": [hook]}})

    def prompt(self, prompt: Prompt) -> Iterable[dict[str, Any]]:
        message = user_message(prompt)
        if self._turn is None:
            self._turn = "prompt"
        return [message]

    def answer(self, request_id: str, answer: Answer) -> Iterable[dict[str, Any]]:
        return self._requests.answer(request_id, answer)

    def cancel(self) -> Iterable[dict[str, Any]]:
        return [self._control({"subtype": "interrupt"})]

    def configure(self, model: str | None, mode: Mode | None) -> Iterable[dict[str, Any]]:
        if model:
            request = {"subtype": "set_model", "model": model}
            yield self._control(request, SettingsChanged(model=model))
        if mode:
            request = {"subtype": "set_permission_mode", "mode": permission_mode(mode)}
            self._mode = mode  # at once: the CLI's own word for "ask" is not telling
            self._requests.planning = mode == "plan"
            yield self._control(request, SettingsChanged(mode=mode))

    def _control(
        self, request: dict[str, Any], then: SettingsChanged | None = None
    ) -> dict[str, Any]:
        self._sent += 1
        request_id = f"bridle_{self._sent}"
        self._waiting[request_id] = then
        return {"type": "control_request", "request_id": request_id, "request": request}

    # -- agent to host -----------------------------------------------------------------------

    def decode(self, line: bytes) -> Iterable[Event | Reply]:
        piece = delta(line)
        if piece is None:
            return list(self._line(line))
        parent, index, kind, words = piece
        if not kind:
            return ()
        events = [] if self._turn or parent else list(self._wake())
        events.append(self._speech(parent).hear(index, kind, words))
        return events

    def _line(self, raw: bytes) -> Said:
        line = parse(raw)
        if isinstance(line, str):
            yield _unrecognized(raw, line)
            return
        request_id = text(line, "request_id")
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
                yield from self._asked(request_id, table(line, "request"), raw)
            case "control_response":
                yield from self._answered(table(line, "response"))
            case "control_cancel_request":
                yield from self._requests.withdrawn(request_id)
            case "rate_limit_event":
                yield from self._limit(table(line, "rate_limit_info"))
            case kind if kind not in notices.QUIET_TYPES:
                yield _unrecognized(raw, f"a line of type {kind!r}")

    def _stream(self, line: Table) -> Said:
        parent = text(line, "parent_tool_use_id") or None
        speech = self._speech(parent)
        event = table(line, "event")
        match text(event, "type"):
            case "message_start":
                message = table(event, "message")
                if parent is None:
                    yield from self._wake()
                    self._meter.message(table(message, "usage"))
                yield from speech.begin(text(message, "id"))
            case "content_block_delta":  # one that the quick way did not know
                piece = table(event, "delta")
                for kind in ("text", "thinking"):
                    if words := text(piece, kind):
                        yield speech.hear(count(event, "index"), kind, words)
            case "message_stop":
                abandoned = line.get("abandoned_blocks")
                if isinstance(abandoned, dict):
                    yield from speech.withdraw(count(abandoned, "from_block_index"))
                speech.stop()

    def _assistant(self, line: Table, raw: bytes) -> Said:
        parent = text(line, "parent_tool_use_id") or None
        message = table(line, "message")
        message_id = text(message, "id")
        speech = self._speech(parent)
        blocks = message.get("content")
        if parent is None:
            yield from self._wake()
        if word := text(line, "error"):
            yield from self._api_error(word, blocks, parent)
            return
        for block in blocks if isinstance(blocks, list) else []:
            kind = text(block, "type") if isinstance(block, dict) else ""
            match kind:
                case "text" | "thinking":
                    yield from speech.whole(message_id, kind, text(block, kind))
                case "tool_use" | "server_tool_use" | "mcp_tool_use":
                    speech.other(message_id)
                    call = call_of(block, parent)
                    self._calls[call.call_id] = call
                    yield call.started(self._cwd)
                case "redacted_thinking":
                    speech.other(message_id)
                case _:
                    speech.other(message_id)
                    yield _unrecognized(raw, f"a block of type {kind!r}")

    def _api_error(self, word: str, blocks: Any, parent: str | None) -> Said:
        """The CLI's words for a failure; the turn's end will tell them."""
        said = [text(block, "text") for block in blocks or [] if isinstance(block, dict)]
        message = "\n".join(filter(None, said)) or word
        if parent is None:
            self._error = failures.ApiError(word, message)
        else:
            yield Notice(level="error", kind="subagent", text=message, parent=parent)

    def _user(self, line: Table) -> Said:
        parent = text(line, "parent_tool_use_id") or None
        for result in results(line):
            yield from self._tool_result(result, parent)

    def _tool_result(self, result: Result, parent: str | None) -> Said:
        call = self._calls.pop(result.call_id, None)
        outcome = result.outcome(result.call_id in self._requests.denied)
        self._requests.call_ended(result.call_id)
        yield ToolFinished(
            call_id=result.call_id,
            outcome=outcome,
            content=result.content(call),
            parent=call.parent if call else parent,
        )
        if call and outcome == "completed":
            plan = self._plans.setdefault(call.parent, Plan(call.parent))
            if changed := plan.follow(call, result):
                yield changed
        yield from self._background.call_ended(result.call_id)

    def _system(self, line: Table, raw: bytes) -> Said:
        match subtype := text(line, "subtype"):
            case "init":
                yield from self._wake()
                yield from self._init(line)
            case "status":
                yield from self._permission_mode(text(line, "permissionMode"))
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
                said = text(line, "content")
                self._speech(None).said = True
                yield MessageChunk(message_id=text(line, "uuid"), text=said)
            case "api_retry":
                retry = notices.retry(line)
                self._retry_after = retry.after
                yield retry.notice
            case _ if notice := notices.notice(subtype, line):
                yield notice
            case _ if subtype not in notices.QUIET_SUBTYPES:
                yield _unrecognized(raw, f"a system line of subtype {subtype!r}")

    def _init(self, line: Table) -> Said:
        """Comes at each turn's beginning."""
        ready = text(line, "session_id"), text(line, "model")
        if ready[0] and ready != self._ready:
            self._ready = ready
            yield AgentReady(native_id=ready[0], model=ready[1] or None)
        commands = tuple(strings(line, "slash_commands"))
        if commands and commands != self._commands:
            self._commands = commands
            yield SettingsChanged(commands=commands)
        yield from self._permission_mode(text(line, "permissionMode"))

    def _permission_mode(self, word: str) -> Said:
        if not word:
            return
        # The CLI has no word for "ask"; anything but "plan" leaves that as it was.
        mode: Mode = "plan" if word == "plan" else "agent" if self._mode == "plan" else self._mode
        if mode != self._mode:
            self._mode = mode
            self._requests.planning = mode == "plan"
            yield SettingsChanged(mode=mode)

    def _state(self, state: str) -> Said:
        if state == "idle" and self._deferred:
            yield from self._end(self._deferred)
        yield from self._background.state(state)

    def _wake(self) -> Said:
        """The agent does something at the top: a turn is open, or opens by itself."""
        if self._turn is None:
            self._turn = "agent"
            self._speech(None).said = False
            yield TurnStarted(origin="agent")
            yield from self._background.woke()

    # -- the end of a turn -------------------------------------------------------------------

    def _result(self, line: Table) -> Said:
        speech = self._speech(None)
        untold = self._turn is not None and not speech.said
        yield from self._wake()
        end = self._ending(line, speech.broken)
        said = text(line, "result")
        if end.reason == "completed" and said and untold:
            yield MessageChunk(message_id=text(line, "uuid"), text=said)
        yield from self._background.served(line)
        self._meter.count(line, self._ready[1])
        if self._turn == "prompt" and table(line, "origin"):
            # A wake-up that was under way when the prompt came. The prompt's own turn follows,
            # unless the agent took the prompt in with it: then it goes idle next.
            self._deferred = end
        else:
            yield from self._end(end)

    def _ending(self, line: Table, broken: str) -> TurnEnded:
        if text(line, "terminal_reason").startswith("aborted"):
            return TurnEnded(reason="cancelled")
        if failures.failed(line, self._error):
            why = failures.failure(line, self._error, self._retry_after)
            return TurnEnded(reason="failed", failure=why)
        usage = table(line, "usage")
        if broken and broken == text(line, "result") and not count(usage, "output_tokens"):
            return TurnEnded(reason="failed", failure=failures.stream_broken(broken))
        return TurnEnded(reason="completed", result=storable(line.get("structured_output")))

    def _end(self, end: TurnEnded) -> Said:
        self._turn = None
        self._deferred = None
        self._error = None
        self._retry_after = None
        speech = self._speech(None)
        speech.said, speech.broken = False, ""
        yield from self._drop_calls(None)
        yield self._meter.report()
        yield end

    def _drop_calls(self, parent: str | None) -> Said:
        """Calls of a turn that ended before them, and what subagents did inside them."""
        for call in [call for call in self._calls.values() if call.parent == parent]:
            yield from self._drop_calls(call.call_id)
            if self._calls.pop(call.call_id, None):
                self._requests.call_ended(call.call_id)
                yield ToolFinished(call_id=call.call_id, outcome="cancelled", parent=parent)

    # -- requests ----------------------------------------------------------------------------

    def _asked(self, request_id: str, request: Table, raw: bytes) -> Said:
        if not request_id:
            yield _unrecognized(raw, "a request without an id")
            return
        match subtype := text(request, "subtype"):
            case "hook_callback":
                yield from self._requests.callback(request_id, request, raw)
            case "can_use_tool":
                yield from self._requests.permission(request_id, request)
            case _:
                yield Reply(requests.error(request_id, f"{subtype!r} is not supported"))
                if subtype not in notices.REFUSED_REQUESTS:
                    yield _unrecognized(raw, f"a request of subtype {subtype!r} was refused")

    def _answered(self, response: Table) -> Said:
        request_id = text(response, "request_id")
        change = self._waiting.pop(request_id, None)
        if text(response, "subtype") == "error":
            why = text(response, "error") or "the agent refused a request"
            yield Notice(level="error", kind="settings", text=why)
        elif change:
            yield change

    def _limit(self, info: Table) -> Said:
        limit = notices.limit(info, self._clock())
        if limit:
            self._retry_after = limit.after
            yield limit.notice

    def _speech(self, parent: str | None) -> Speech:
        speech = self._speeches.get(parent)
        if speech is None:
            speech = self._speeches[parent] = Speech(parent)
        return speech


def _unrecognized(raw: bytes, why: str) -> Unrecognized:
    return Unrecognized(raw=raw.decode("utf-8", "replace"), why=why)
