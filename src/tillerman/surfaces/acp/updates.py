"""Encodes the entries of a session's log as `session/update` params. No I/O but stored images."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from tillerman.agents.acp.tool_kinds import kind_of
from tillerman.core.events import (
    AgentStarted,
    Answer,
    Attachment,
    Content,
    Diff,
    Entry,
    MessageChunk,
    MessageWithdrawn,
    Notice,
    PermissionRequested,
    PlanChanged,
    QuestionAsked,
    RequestAnswered,
    SettingsChanged,
    Text,
    ThoughtChunk,
    ToolFinished,
    ToolStarted,
    ToolUpdated,
    TurnStarted,
    UsageReported,
    UserMessage,
)
from tillerman.core.json_fields import Table
from tillerman.core.terminal_sanitizer import clean
from tillerman.core.tools import TOOLS
from tillerman.surfaces.acp import tool_content
from tillerman.surfaces.acp.client import ClientCapabilities
from tillerman.surfaces.acp.terminal_output import TerminalOutput
from tillerman.surfaces.acp.tool_content import Images, text_content
from tillerman.surfaces.rendering.proposed_changes import plan_of

_CHUNKS: dict[type, Literal["agent_message_chunk", "agent_thought_chunk"]] = {
    MessageChunk: "agent_message_chunk",
    ThoughtChunk: "agent_thought_chunk",
}
_TOLD = frozenset({"retry", "fallback", "handoff", "limit"})  # notices of level info, too
_OF_USER = ("steer", "imported", "shell")
PARENT = "parentToolCallId"  # in `_meta` of a subagent's tool call


class _Call:
    """A tool call that the editor knows."""

    def __init__(self, id: str, diffs: list[Table], terminal: TerminalOutput | None) -> None:
        self.id = id
        self.diffs = diffs  # what it changes, as far as its input shows it
        self.terminal = terminal


class SessionUpdates:
    """Receives the entries of one session in order."""

    def __init__(self, cwd: str, images: Images, client: ClientCapabilities) -> None:
        self._cwd = cwd
        self._images = images
        self._client = client
        self._calls: dict[str, _Call] = {}
        self._requests: dict[str, str] = {}  # open ones, with the id of their call
        self._growing: set[tuple[type, str]] = set()  # messages since the last tool call
        self._parts: dict[tuple[type, str], int] = {}
        self._cost: float | None = None
        self._context: tuple[int | None, int | None] = (None, None)

    def encode(self, entry: Entry, *, own: bool = False) -> Iterator[Table]:
        """`own`: the prompt of this turn came from this editor, which shows it already."""
        event = entry.event
        match event:
            case MessageChunk() | ThoughtChunk():
                if event.parent is None:
                    yield self._chunk(entry.turn, event)
            case ToolStarted():
                yield from self._started(entry.turn, event)
            case ToolUpdated():
                yield from self._updated(entry.turn, event)
            case ToolFinished():
                yield from self._finished(entry.turn, event)
            case PlanChanged(parent=None):
                yield {"sessionUpdate": "plan", "entries": [_step(one) for one in event.steps]}
            case RequestAnswered():
                yield from self._answered(event)
            case UsageReported(parent=None):
                yield from self._usage(event)
            case SettingsChanged():
                yield from _settings(event)
            case MessageWithdrawn(parent=None):
                text = "the last message is void: the agent starts it again"
                yield self._notice("warning", text, f"{entry.seq}")
            case Notice(level=level, kind=kind, text=text):
                if level != "info" or kind in _TOLD:
                    yield self._notice(level, text, f"{entry.seq}")
            case TurnStarted():
                self._growing.clear()
                self._parts.clear()
                if event.origin == "prompt" and not own:
                    yield from self._prompt(f"{entry.turn}.user", event)
            case UserMessage(text=text, how=how) if how in _OF_USER:
                yield chunk("user_message_chunk", f"{entry.turn}.user{entry.seq}", text)
            case AgentStarted():
                self._growing.clear()

    # -- messages --

    def _chunk(self, turn: int, event: MessageChunk | ThoughtChunk) -> Table:
        kind = type(event)
        key = (kind, event.message_id)
        if key not in self._growing:
            self._growing.add(key)
            self._parts[key] = self._parts.get(key, 0) + 1
        part = self._parts[key]
        mark = ("t" if kind is ThoughtChunk else "") + (f".{part}" if part > 1 else "")
        return chunk(_CHUNKS[kind], f"{turn}.{event.message_id}{mark}", event.text)

    def _prompt(self, id: str, event: TurnStarted) -> Iterator[Table]:
        if event.prompt:
            yield chunk("user_message_chunk", id, event.prompt)
        for file in event.attachments:
            content = self._attachment(file)
            yield {"sessionUpdate": "user_message_chunk", "messageId": id, "content": content}

    def _attachment(self, file: Attachment) -> Table:
        if file.mime.startswith("image/"):
            return tool_content.image(file.mime, self._images(file.hash))
        named = {"uri": f"attachment:{file.name}", "name": file.name, "mimeType": file.mime}
        return {"type": "resource_link", **named, "size": file.size}

    def _notice(self, level: str, text: str, id: str) -> Table:
        if self._client.notices:
            return {"sessionUpdate": "notice", "severity": level, "title": text}
        return chunk("agent_thought_chunk", f"notice.{id}", f"tillerman: {text}\n")

    # -- tool calls --

    def _started(self, turn: int, event: ToolStarted) -> Iterator[Table]:
        self._growing.clear()
        id = f"{turn}.{event.call_id}"
        content = list(tool_content.proposed(event.tool, event.input, event.paths, self._cwd))
        meta: Table = {PARENT: self._id(turn, event.parent)} if event.parent else {}
        diffs, terminal = content, None
        if event.tool == "Bash" and self._client.shows_output:
            terminal = TerminalOutput(id)
            content, meta = [*content, terminal.content], meta | terminal.begin(self._cwd)
        self._calls[event.call_id] = _Call(id, diffs, terminal)
        update = {
            "sessionUpdate": "tool_call",
            "toolCallId": id,
            "status": "in_progress",
            **described(event, self._cwd),
        }
        yield update | ({"content": content} if content else {}) | ({"_meta": meta} if meta else {})

    def _updated(self, turn: int, event: ToolUpdated) -> Iterator[Table]:
        call = self._calls.get(event.call_id)
        told: Table = {"title": clean(event.title)} if event.title else {}
        told |= self._content(call, event.content)
        if told:
            yield _update(self._id(turn, event.call_id), told)

    def _finished(self, turn: int, event: ToolFinished) -> Iterator[Table]:
        call = self._calls.pop(event.call_id, None)
        id = call.id if call else f"{turn}.{event.call_id}"
        status = "completed" if event.outcome == "completed" else "failed"
        given = event.content
        if event.outcome in ("denied", "cancelled") and not given:
            given = (Text(event.outcome),)
        told: Table = {"status": status, **self._content(call, given, event.outcome)}
        if call and call.terminal:
            told["_meta"] = told.get("_meta", {}) | call.terminal.end(event.outcome)
        if output := tool_content.output(event.content):
            told["rawOutput"] = {"output": output}
        yield _update(id, told)

    def _content(self, call: _Call | None, given: tuple[Content, ...], outcome: str = "") -> Table:
        """The members of an update that show the result; `outcome`: of a finished call."""
        if not given:
            return {}
        if call and call.terminal:
            more = call.terminal.more(tool_content.output(given), final=bool(outcome))
            return {"_meta": more} if more else {}
        content = list(tool_content.contents(given, self._cwd, self._images))
        if call and call.diffs and not any(isinstance(part, Diff) for part in given):
            if outcome in ("", "completed"):
                return {}  # the diff says more than a text such as "the file was updated"
            content = [*call.diffs, *content]
        return {"content": content}

    def _id(self, turn: int, call_id: str) -> str:
        call = self._calls.get(call_id)
        return call.id if call else f"{turn}.{call_id}"

    # -- requests --

    def asked(self, turn: int, event: PermissionRequested | QuestionAsked) -> Table:
        """The `toolCall` of a request: that of the call it is about, or one of its own."""
        own = event.call_id is None or event.call_id not in self._calls
        id = f"{turn}.{event.request_id}" if own else self._id(turn, event.call_id or "")
        self._requests[event.request_id] = id
        if isinstance(event, QuestionAsked):
            text = "\n".join(question.text for question in event.questions)
            return {"toolCallId": id, "title": clean(text), "kind": "other", "status": "pending"}
        content = list(
            tool_content.proposed(
                event.tool, event.input, event.paths, self._cwd, against_files=True
            )
        )
        content += [text_content(text) for text in (plan_of(event), event.reason) if text]
        call = {"toolCallId": id, "status": "pending", **described(event, self._cwd)}
        return call | ({"content": content} if content else {})

    def _answered(self, event: RequestAnswered) -> Iterator[Table]:
        id = self._requests.pop(event.request_id, None)
        if id is None:
            return
        denied = event.answer.option == "deny"
        if any(call.id == id for call in self._calls.values()):
            if not denied and event.by != "withdrawn":
                yield _update(id, {"status": "in_progress"})
            return
        told: Table = {"status": "failed" if denied else "completed"}
        if words := _answer(event.answer):
            told["content"] = [text_content(words)]
        yield _update(id, told)

    # -- usage --

    def _usage(self, event: UsageReported) -> Iterator[Table]:
        if event.cost_usd is not None:
            self._cost = (self._cost or 0.0) + event.cost_usd
        used, limit = self._context
        used = event.context_used if event.context_used is not None else used
        limit = event.context_limit if event.context_limit is not None else limit
        self._context = used, limit
        if used is None or limit is None:
            return
        cost = {} if self._cost is None else {"cost": {"amount": self._cost, "currency": "USD"}}
        yield {"sessionUpdate": "usage_update", "used": used, "size": limit, **cost}


def chunk(kind: str, id: str, text: str) -> Table:
    content = {"type": "text", "text": text}
    return {"sessionUpdate": kind, "messageId": id, "content": content}


def described(event: ToolStarted | PermissionRequested, cwd: str) -> Table:
    """What a call does, for `tool_call` and for the request about it."""
    places = [{"path": tool_content.absolute(path, cwd)} for path in event.paths]
    name = event.tool if event.tool in TOOLS and event.tool != "MCP" else ""
    if not name and isinstance(event, ToolStarted):
        name = _server_tool(event.name) if event.tool == "MCP" else event.name
    told: dict[str, Any] = {
        "title": clean(event.title),
        "kind": kind_of(event.tool),
        "rawInput": event.input,
    }
    return told | ({"name": name} if name else {}) | ({"locations": places} if places else {})


def _server_tool(name: str) -> str:
    """The tool of an MCP server as `mcp__SERVER__TOOL`, which most agents use."""
    server, dot, tool = name.partition(".")
    return f"mcp__{server}__{tool}" if dot and not name.startswith("mcp__") else name


def _update(id: str, told: Table) -> Table:
    return {"sessionUpdate": "tool_call_update", "toolCallId": id, **told}


def _step(step: Any) -> Table:
    return {"content": step.text, "priority": "medium", "status": step.status}


def _settings(event: SettingsChanged) -> Iterator[Table]:
    if event.mode:
        yield {"sessionUpdate": "current_mode_update", "currentModeId": event.mode}
    if event.commands is not None:
        commands = [{"name": name.lstrip("/"), "description": ""} for name in event.commands]
        yield {"sessionUpdate": "available_commands_update", "availableCommands": commands}
    if event.title:
        yield {"sessionUpdate": "session_info_update", "title": clean(event.title)}


def _answer(answer: Answer) -> str:
    words = "\n".join(f"{text}\n{chosen}" for text, chosen in (answer.answers or {}).items())
    return words or answer.note or ""
