"""Permission requests and events from Cursor's hooks, and the replies to them.

A call is asked about at `preToolUse`: it has the call's id, and accepts a changed input. What it
allowed passes once at the event that follows it for a command, an MCP tool, a file or a subagent;
what arrives there without a `preToolUse` is asked about there. An edit asks twice, to read and then
to write: only the second becomes a request.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from tillerman.agents.cursor import hook_dialect as cursor
from tillerman.agents.cursor.hook_dialect import MCP
from tillerman.agents.cursor.hooks.hook_events import HookEvents, call_of
from tillerman.agents.cursor.hooks.hook_payloads import (
    BeforeMCPExecution,
    BeforeReadFile,
    BeforeShellExecution,
    BeforeSubmitPrompt,
    CursorSessionStart,
    CursorSubagentStart,
    PreToolUse,
)
from tillerman.agents.decoding.fields import Table, parse, table, text
from tillerman.agents.stdio.hooked_per_turn_conversation import HookDecision, Said
from tillerman.agents.stdio.line_decoder import unrecognized
from tillerman.core.agent import SessionSpec
from tillerman.core.events import (
    ALLOW,
    Answer,
    Event,
    RequestAnswered,
    ThoughtChunk,
    ToolFinished,
    ToolStarted,
)
from tillerman.core.tools import WRITES, class_of
from tillerman.hooks.dialects.payload_codec import HookEvent, UnreadablePayload

Key = tuple[str, ...]

_UNSEEN = (
    "Calls of Cursor's subagents cannot be approved, so this session does not allow subagents."
)
_DENIED = "This was denied."


class CursorHookRequests:
    def __init__(self, spec: SessionSpec) -> None:
        options = dict(spec.native.options)
        self._context = text(options, "context")
        given = table(options, "environment")
        self._environment = {name: str(value) for name, value in given.items()}
        self.begin(spec)

    def begin(self, spec: SessionSpec) -> None:
        self._subagents = spec.approval.preset == "auto"
        self._cwd = str(spec.cwd)
        self._hook_events = HookEvents(self._cwd)
        self._calls = self._hook_events.calls
        self._waiting: dict[
            str, HookEvent
        ] = {}  # by hook request, until the stream reports the call
        self._open: dict[str, HookEvent] = {}  # by request
        self._allowed: dict[Key, list[str]] = {}  # calls that pass at the next event

    @property
    def waits(self) -> bool:
        return bool(self._waiting)

    # -- the stream --------------------------------------------------------------------------

    def receive(self, events: Iterable[Event]) -> Iterator[Said]:
        for event in events:
            match event:
                case ToolStarted(call_id=call_id):
                    self._calls[call_id] = event
                    for ask, stored in list(self._waiting.items()):
                        if call_of(stored) == call_id:
                            yield from self._consider(ask, self._waiting.pop(ask))
                case ToolFinished(call_id=call_id):
                    self._forget(call_id)
                case ThoughtChunk():
                    self._hook_events.thinks = True

    def release_held(self) -> Iterator[Said]:
        stored, self._waiting = self._waiting, {}
        for ask, event in stored.items():
            yield from self._consider(ask, event)

    def end(self) -> Iterator[Event]:
        for event in self._waiting.values():
            yield from self._hook_events.of(event)
        self._waiting = {}

    # -- the hooks ---------------------------------------------------------------------------

    def asked(self, ask: str, event: str, payload: bytes) -> Iterator[Said]:
        reported = cursor.read(event, payload)
        if isinstance(reported, UnreadablePayload) or reported.event != event:
            why = (
                reported.why
                if isinstance(reported, UnreadablePayload)
                else f"{reported.event} arrived as {event}"
            )
            yield HookDecision(
                ask, cursor.deny(reported, f"tillerman cannot decode the request: {why}")
            )
            yield unrecognized(payload, why)
            return
        if event not in cursor.GATES and not isinstance(reported, CursorSessionStart):
            yield HookDecision(ask, cursor.nothing(reported))
        call_id = call_of(reported)
        if call_id and call_id not in self._calls:
            self._waiting[ask] = reported
        else:
            yield from self._consider(ask, reported)

    def answer(self, request_id: str, answer: Answer) -> Iterator[Said]:
        event = self._open.pop(request_id, None)
        if event is None:
            return
        if answer.option != ALLOW.id:
            yield HookDecision(request_id, cursor.deny(event, answer.note or _DENIED))
            return
        changed = answer.input if answer.input != _input(event) else None
        if changed is not None and not _shown_later(event):
            instead = f"use this input instead: {json.dumps(changed, ensure_ascii=False)}"
            yield HookDecision(request_id, cursor.deny(event, instead))
            return
        key = _key(event, self._cwd, changed) if isinstance(event, PreToolUse) else None
        if key:
            self._allowed.setdefault(key, []).append(call_of(event))
        yield HookDecision(request_id, cursor.allow(event, input=changed))

    def gone(self, ask: str) -> Iterator[Said]:
        self._waiting.pop(ask, None)
        if self._open.pop(ask, None):
            yield RequestAnswered(request_id=ask, answer=Answer("deny"), by="withdrawn")

    def _consider(self, ask: str, event: HookEvent) -> Iterator[Said]:
        match event:
            case CursorSessionStart():
                reply = cursor.context(event, self._context, environment=self._environment)
                yield HookDecision(ask, reply)
            case PreToolUse():
                yield from self._before_tool(ask, event)
            case CursorSubagentStart() if not self._subagents:
                yield HookDecision(ask, cursor.deny(event, _UNSEEN))
            case BeforeSubmitPrompt():
                yield HookDecision(ask, cursor.allow(event))  # the prompt is ours
            case _ if event.event in cursor.GATES:
                if self._pass(event):
                    yield HookDecision(ask, cursor.allow(event))
                else:
                    yield from self._request(ask, event)
                yield from self._hook_events.of(event)
            case _:
                yield from self._hook_events.of(event)

    def _before_tool(self, ask: str, event: PreToolUse) -> Iterator[Said]:
        call = self._calls.get(call_of(event))
        if event.tool_name == "Read" and call and call.tool in WRITES:
            yield HookDecision(ask, cursor.allow(event))  # `Write` follows
        elif event.tool_name == "Task" and not self._subagents:
            yield HookDecision(ask, cursor.deny(event, _UNSEEN))
        else:
            yield from self._request(ask, event)

    def _request(self, ask: str, event: HookEvent) -> Iterator[Said]:
        """Emits a request with details from the stream: the server of a tool, the edit."""
        request = cursor.request_of(event, ask)
        assert request, f"{event.event} does not belong to a call"
        call = self._calls.get(request.call_id or "")
        if call and class_of(call.tool) == class_of(request.tool):
            paths = dict.fromkeys((*request.paths, *call.paths))
            request = replace(request, tool=call.tool, title=call.title, paths=tuple(paths))
        self._open[ask] = event
        yield request

    def _pass(self, event: HookEvent) -> bool:
        """Whether the event was allowed before; each allowance counts once."""
        key = _key(event, self._cwd)
        calls = self._allowed.get(key, []) if key else []
        if calls:
            calls.pop()
            return True
        return False

    def _forget(self, call_id: str) -> None:
        for calls in self._allowed.values():
            if call_id in calls:
                calls.remove(call_id)


def _shown_later(event: HookEvent) -> bool:
    """Whether a later event has the input, which shows if Cursor applied a changed one."""
    if not isinstance(event, PreToolUse):
        return False
    return event.tool_name in ("Shell", "Read") or event.tool_name.startswith(MCP)


def _input(event: HookEvent) -> Table | None:
    request = cursor.request_of(event, "")
    return request.input if request else None


def _key(event: HookEvent, cwd: str, changed: Table | None = None) -> Key | None:
    """The key that `preToolUse` and the event after it share; None if no event follows."""
    match event:
        case PreToolUse(tool_name=name, tool_input=given):
            return _key_before(name, given if changed is None else changed, call_of(event), cwd)
        case BeforeShellExecution(command=command):
            return ("command", command)
        case BeforeReadFile(file_path=path):
            return ("file", _whole(path, cwd))
        case BeforeMCPExecution(tool_name=name, tool_input=reported):
            found = parse(reported.encode("utf-8", "replace"))
            return ("tool", name, _plain(found) if isinstance(found, dict) else reported)
        case CursorSubagentStart(tool_call_id=id):
            return ("task", cursor.call_id(id))
    return None


def _key_before(name: str, input: Table, call_id: str, cwd: str) -> Key | None:
    match name:
        case "Shell":
            return ("command", text(input, "command"))
        case "Read":
            return ("file", _whole(text(input, "file_path"), cwd))
        case "Task":
            return ("task", call_id)
    return ("tool", name.removeprefix(MCP), _plain(input)) if name.startswith(MCP) else None


def _plain(input: Table) -> str:
    return json.dumps(input, sort_keys=True)


def _whole(path: str, cwd: str) -> str:
    return posixpath.normpath(posixpath.join(cwd, path))
