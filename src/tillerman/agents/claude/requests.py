"""Permission requests and questions of Claude Code, and the responses to them.

A rule makes it ask about commands and reads (`launch.ASKED`), a PreToolUse callback about the rest.
A question and the end of plan mode need the user's answer regardless of a callback: for them the
callback passes, and `can_use_tool` asks. If both ask about one call, the first answer is reused for
the second.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any, Literal, NamedTuple

from tillerman.agents.claude import permission_suggestions
from tillerman.agents.claude.background import ClaudeBackground
from tillerman.agents.claude.launch import ASKED
from tillerman.agents.claude.settings import ClaudeSettings
from tillerman.agents.claude.tools import ClaudeToolCall
from tillerman.agents.decoding.fields import Table, storable, table, tables, text
from tillerman.agents.decoding.questions import question
from tillerman.agents.stdio.line_decoder import unrecognized
from tillerman.core import tools
from tillerman.core.events import (
    Answer,
    Event,
    PermissionRequested,
    QuestionAsked,
    RequestAnswered,
)
from tillerman.core.wire import WireReply

CALLBACK = "tillerman_pre_tool_use"
CALLED_BACK = f"^(?!(?:{'|'.join(ASKED)})$)"
# The longest time the CLI can wait: its timer takes at most 2^31 ms, and an overflow fires at once.
# When it fires, the call does not run.
HOOK_TIMEOUT = 20 * 24 * 3600

_ASKED_ANYWAY = frozenset({"AskUserQuestion", "ExitPlanMode"})
# Tools without effects outside the agent; the CLI's own rules decide.
_INWARD = frozenset(
    {"StructuredOutput", "ToolSearch", "TaskGet", "TaskList", "TaskOutput", "ListAgents"}
)
_OTHER_HOOKS = frozenset(
    {
        "PostToolUse", "PostToolUseFailure", "Stop", "StopFailure", "SubagentStart",
        "SubagentStop", "UserPromptSubmit", "SessionStart", "SessionEnd", "Notification",
        "PreCompact", "PostCompact", "PermissionRequest", "PermissionDenied",
    }
)  # fmt: skip


class _Open(NamedTuple):
    channel: Literal["callback", "permission", "question"]
    call_id: str
    input: Table  # unmodified: any difference would count as changed by the user


class ClaudeRequests:
    def __init__(
        self,
        cwd: str,
        calls: Mapping[str, ClaudeToolCall],
        background: ClaudeBackground,
        settings: ClaudeSettings,
    ) -> None:
        self._cwd = cwd
        self._calls = calls
        self._background = background
        self._settings = settings
        self._open: dict[str, _Open] = {}
        self._allowed: dict[str, Table] = {}  # by call, with the allowed input
        self.denied: set[str] = set()  # call ids

    def callback(self, request_id: str, request: Table, raw: bytes) -> Iterator[Event | WireReply]:
        """Handles `hook_callback`."""
        input = table(request, "input")
        name = text(input, "tool_name")
        if text(input, "hook_event_name") in _OTHER_HOOKS:
            yield WireReply(success(request_id, {}))
        elif not name:
            yield WireReply(
                success(request_id, _decision("deny", "tillerman cannot decode this call"))
            )
            yield unrecognized(raw, "a callback without a tool was denied")
        elif name in _ASKED_ANYWAY | _INWARD or self._is_own_plan(name, input):
            yield WireReply(success(request_id, {}))
        else:
            asked = table(input, "tool_input")
            yield self._ask(request_id, "callback", self._call(input, name, asked), asked)

    def permission(self, request_id: str, request: Table) -> Iterator[Event | WireReply]:
        """Handles `can_use_tool`."""
        name = text(request, "tool_name")
        asked = table(request, "input")
        call = self._call(request, name, asked)
        if name == "AskUserQuestion":
            self._open[request_id] = _Open("question", call.call_id, asked)
            yield QuestionAsked(
                request_id=request_id,
                questions=tuple(question(q) for q in tables(call.input, "questions")),
                call_id=call.call_id or None,
                parent=call.parent,
            )
        elif call.call_id in self._allowed:
            yield WireReply(success(request_id, _allow(self._allowed[call.call_id])))
        else:
            why = filter(
                None, (text(request, "decision_reason"), permission_suggestions.described(request))
            )
            yield self._ask(request_id, "permission", call, asked, "\n".join(why))

    def withdrawn(self, request_id: str) -> Iterator[Event]:
        """Handles `control_cancel_request`: the CLI no longer waits for the answer."""
        if self._open.pop(request_id, None):
            yield RequestAnswered(request_id=request_id, answer=Answer("deny"), by="withdrawn")

    def answer(self, request_id: str, answer: Answer) -> list[dict[str, Any]]:
        request = self._open.pop(request_id, None)
        if request is None:
            return []
        allowed = answer.option != "deny"
        input = request.input if answer.input is None else answer.input
        if not allowed:
            self.denied.add(request.call_id)
        elif request.channel == "callback":
            self._allowed[request.call_id] = input
        match request.channel, allowed:
            case "callback", True:
                reply = _decision("allow", "", answer.input)
            case "callback", False:
                reply = _decision("deny", answer.note or "The user denied this call.")
            case "question", True:
                reply = _allow({**input, "answers": answer.answers or {}})
            case _, True:
                reply = _allow(input)
            case _:
                reply = {"behavior": "deny", "message": answer.note or "The user denied this."}
        return [success(request_id, reply)]

    def call_ended(self, call_id: str) -> None:
        self._allowed.pop(call_id, None)
        self.denied.discard(call_id)

    def _is_own_plan(self, name: str, input: Table) -> bool:
        """Whether this writes the plan file, which the agent keeps next to its transcripts."""
        file = PurePath(text(table(input, "tool_input"), "file_path"))
        home = PurePath(text(input, "transcript_path")).parents
        return (
            self._settings.mode == "plan"
            and name in ("Write", "Edit")
            and len(home) > 2
            and file.parent == home[2] / "plans"
            and file.suffix == ".md"
        )

    def _call(self, asked: Table, name: str, input: Table) -> ClaudeToolCall:
        """The call in question, completed from its tool_use if that came first."""
        call_id = text(asked, "tool_use_id")
        known = self._calls.get(call_id)
        if known:
            return ClaudeToolCall(
                call_id, name or known.name, storable(input) or known.input, known.parent
            )
        parent = self._background.call_of(text(asked, "agent_id"))
        return ClaudeToolCall(call_id, name, storable(input), parent)

    def _ask(
        self,
        request_id: str,
        channel: Literal["callback", "permission"],
        call: ClaudeToolCall,
        asked: Table,
        why: str = "",
    ) -> Event:
        self._open[request_id] = _Open(channel, call.call_id, asked)
        return PermissionRequested(
            request_id=request_id,
            tool=call.tool,
            title=call.title(self._cwd),
            input=call.input,
            paths=tools.paths_of(call.input),
            call_id=call.call_id or None,
            reason=why,
            parent=call.parent,
        )


def success(request_id: str, response: Table) -> dict[str, Any]:
    body = {"subtype": "success", "request_id": request_id, "response": response}
    return {"type": "control_response", "response": body}


def error(request_id: str, why: str) -> dict[str, Any]:
    body = {"subtype": "error", "request_id": request_id, "error": why}
    return {"type": "control_response", "response": body}


def _decision(decision: str, reason: str, input: Table | None = None) -> Table:
    output: Table = {"hookEventName": "PreToolUse", "permissionDecision": decision}
    if reason:
        output["permissionDecisionReason"] = reason
    if input is not None:
        output["updatedInput"] = input
    return {"hookSpecificOutput": output}


def _allow(input: Table) -> Table:
    return {"behavior": "allow", "updatedInput": input}
