"""Converts Cursor's observing hooks to events: subagents and their calls, edits, thoughts."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import Literal

from tillerman.agents.cursor import hook_dialect as cursor
from tillerman.agents.cursor.hooks.hook_payloads import (
    AfterAgentThought,
    AfterFileEdit,
    CursorSubagentStart,
    CursorSubagentStop,
    PostToolUse,
    PostToolUseFailure,
    PreCompact,
    PreToolUse,
)
from tillerman.agents.cursor.tool_names import NAMES
from tillerman.core import tools
from tillerman.core.events import Event, Notice, ThoughtChunk, ToolFinished, ToolStarted
from tillerman.hooks.dialects.payload_codec import HookEvent


class HookEvents:
    """The hook events of one turn, without duplicates of the stream."""

    def __init__(self, cwd: str) -> None:
        self.calls: dict[str, ToolStarted] = {}  # by id
        self.thinks = False  # the stream reports thoughts
        self._cwd = cwd
        self._thoughts = 0

    def of(self, event: HookEvent) -> Iterator[Event]:
        match event:
            case PostToolUse() if call_of(event) not in self.calls:
                yield from self._unseen(event, "completed")
            case PostToolUseFailure() if call_of(event) not in self.calls:
                denied = event.failure_type == "permission_denied"
                yield from self._unseen(event, "denied" if denied else "failed")
            case AfterFileEdit(file_path=path) if not self._is_known(path):
                yield Notice(level="info", kind="files", text=f"Cursor edited {path}")
            case AfterAgentThought(text=words) if words and not self.thinks:
                self._thoughts += 1
                yield ThoughtChunk(message_id=f"hook-thought-{self._thoughts}", text=words)
            case CursorSubagentStart(task=task):
                yield _of_subagent(f"a subagent started: {task}")
            case CursorSubagentStop(status=status, summary=summary):
                message = f"a subagent ended ({status or 'unknown status'})"
                yield _of_subagent(f"{message}: {summary}" if summary else message)
            case PreCompact(context_usage_percent=percent):
                message = f"Cursor compacts the conversation: {percent:g} % of its context is used"
                yield Notice(level="info", kind="compaction", text=message)

    def _unseen(
        self,
        event: PostToolUse | PostToolUseFailure,
        outcome: Literal["completed", "failed", "denied"],
    ) -> Iterator[Event]:
        """Reports a call that is not in the stream: one of a subagent."""
        name, input = event.tool_name, event.tool_input
        tool = "MCP" if name.startswith(cursor.MCP) else NAMES.get(name, name)
        tasks = [call.call_id for call in self.calls.values() if call.tool == "Task"]
        parent = tasks[-1] if tasks else None
        call = ToolStarted(
            call_id=call_of(event),
            tool=tool,
            name=name,
            title=tools.title(tool, input, name=name, cwd=self._cwd),
            input=input,
            paths=tools.paths_of(input),
            parent=parent,
        )
        self.calls[call.call_id] = call
        yield call
        yield ToolFinished(call_id=call.call_id, outcome=outcome, parent=parent)

    def _is_known(self, path: str) -> bool:
        named = [path for call in self.calls.values() for path in call.paths]
        return self._whole(path) in map(self._whole, named)

    def _whole(self, path: str) -> str:
        return posixpath.normpath(posixpath.join(self._cwd, path))


def call_of(event: HookEvent) -> str:
    """The call id of an event, in the form of the stream; "" if it has none."""
    match event:
        case PreToolUse() | PostToolUse() | PostToolUseFailure():
            return cursor.call_id(event.tool_use_id)
    return ""


def _of_subagent(text: str) -> Notice:
    return Notice(level="info", kind="subagent", text=text)
