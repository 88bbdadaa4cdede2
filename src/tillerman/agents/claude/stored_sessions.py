"""Lists the sessions that Claude Code stores on disk, and imports their history."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from tillerman.agents.claude.tools import ClaudeToolCall, ClaudeToolResult, call_of, results
from tillerman.agents.decoding.fields import Table, parse, table, tables, text
from tillerman.core.agent_admin import NativeSession
from tillerman.core.events import (
    Content,
    Event,
    Image,
    MessageChunk,
    Text,
    ThoughtChunk,
    ToolFinished,
    UserMessage,
)
from tillerman.core.timestamps import rfc3339

_HEAD = 64 * 1024  # bytes read at the start and at the end of a session file
_NO_WORDS = ("<", "[Request interrupted by user")  # user messages that the CLI generates


def folder_of(home: Path, cwd: Path) -> Path:
    return home / "projects" / re.sub(r"[^A-Za-z0-9]", "-", str(cwd.resolve()))


def session(file: Path, cwd: Path) -> NativeSession | None:
    """A stored session, or None for a file without one."""
    try:
        with file.open("rb") as stored:
            lines = stored.read(_HEAD).splitlines()
            size = stored.seek(0, os.SEEK_END)
            if size > _HEAD:
                stored.seek(max(_HEAD, size - _HEAD))
                lines += stored.read().splitlines()
            updated = datetime.fromtimestamp(os.fstat(stored.fileno()).st_mtime, UTC)
    except OSError:
        return None
    title, first = "", ""
    for line in map(parse, lines):
        if isinstance(line, str):
            continue
        named = (text(line, key) for key in ("customTitle", "aiTitle", "summary"))
        title = next(filter(None, named), title)
        first = first or _prompt(line)
    if not (title or first):
        return None
    stamp = rfc3339(updated, "seconds")
    return NativeSession(file.stem, title or _headline(first), stamp, str(cwd))


def history(lines: Iterable[bytes], cwd: str) -> Iterator[Event]:
    """The events of a session in the order of the file, without subagents' messages."""
    calls: dict[str, ClaudeToolCall] = {}
    for line in map(parse, lines):
        if isinstance(line, str) or line.get("isSidechain") is True:
            continue
        match text(line, "type"):
            case "user" if prompt := _prompt(line):
                yield UserMessage(text=prompt, how="imported")
            case "user":
                for result in results({**line, "tool_use_result": line.get("toolUseResult")}):
                    yield _finished(result, calls.pop(result.call_id, None))
            case "assistant":
                yield from _message_events(table(line, "message"), cwd, calls)
    for call in calls.values():
        yield ToolFinished(call_id=call.call_id, outcome="cancelled")


def _message_events(message: Table, cwd: str, calls: dict[str, ClaudeToolCall]) -> Iterator[Event]:
    message_id = text(message, "id")
    for block in tables(message, "content"):
        match text(block, "type"):
            case "text" if words := text(block, "text"):
                yield MessageChunk(message_id=message_id, text=words)
            case "thinking" if words := text(block, "thinking"):
                yield ThoughtChunk(message_id=message_id, text=words)
            case "tool_use" | "server_tool_use" | "mcp_tool_use":
                call = calls[text(block, "id")] = call_of(block, None)
                yield call.started(cwd)


def _finished(result: ClaudeToolResult, call: ClaudeToolCall | None) -> ToolFinished:
    shown = tuple(map(_without_bytes, result.content(call)))
    return ToolFinished(call_id=result.call_id, outcome=result.outcome(denied=False), content=shown)


def _without_bytes(content: Content) -> Content:
    return Text(f"({content.mime})") if isinstance(content, Image) else content


def _prompt(line: Table) -> str:
    """The user's prompt in the line; "" if there is none."""
    if text(line, "type") != "user" or line.get("isMeta") is True:
        return ""
    message = table(line, "message")
    content = text(message, "content") or next(
        (text(block, "text") for block in tables(message, "content")), ""
    )
    return "" if content.startswith(_NO_WORDS) else content


def _headline(prompt: str, limit: int = 80) -> str:
    line = " ".join(prompt.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
