"""Lists and imports Qwen Code's stored sessions: `~/.qwen/projects/FOLDER/chats/ID.jsonl`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from tillerman.agents.acp.tools import shown, vocabulary
from tillerman.agents.commands.json_files import headline, records
from tillerman.agents.decoding.fields import Table, storable, table, tables, text
from tillerman.agents.qwen.launch import ROW
from tillerman.agents.stdio.recorded_conversation import Recorded
from tillerman.core import tools
from tillerman.core.agent_admin import NativeSession
from tillerman.core.events import (
    Content,
    Diff,
    Event,
    MessageChunk,
    Text,
    ThoughtChunk,
    ToolFinished,
    ToolStarted,
    UserMessage,
)

_END = 1024 * 1024  # bytes read at the end of a file


def sessions(home: Path, cwd: Path) -> list[NativeSession]:
    """The sessions of a folder, newest first."""
    found = [_session(file, cwd) for file in _folder(home, cwd).glob("*.jsonl")]
    return sorted(filter(None, found), key=lambda each: each.updated, reverse=True)


def history(home: Path, session: NativeSession) -> list[Event]:
    file = _folder(home, Path(session.cwd or "")) / f"{session.native_id}.jsonl"
    return [event for record in records(file) for event in _events(record, session.cwd or "")]


def recorded(home: Path, native_id: str) -> Recorded | None:
    """The last prompt and reply in a session file; None if there is none."""
    prompt, reply, found = "", None, False
    for file in home.glob(f"projects/*/chats/{native_id}.jsonl"):
        for record in records(file, last=_END):
            match text(record, "type"):
                case "user" if words := _words(record):
                    prompt, reply, found = words, None, True
                case "user" | "tool_result":
                    reply = None
                case "assistant":
                    reply = _reply(tables(table(record, "message"), "parts"))
    return Recorded(prompt, reply) if found else None


def _reply(parts: list[Table]) -> str | None:
    if any(table(part, "functionCall") for part in parts):
        return None
    return "".join(text(part, "text") for part in parts if part.get("thought") is not True)


def switched(settings: Table, name: str, on: bool) -> Table:
    """Edits `mcp.excluded` in the settings."""
    mcp = table(settings, "mcp")
    excluded = [one for one in mcp.get("excluded") or [] if one != name]
    return {**settings, "mcp": {**mcp, "excluded": excluded if on else [*excluded, name]}}


def _folder(home: Path, cwd: Path) -> Path:
    return home / "projects" / re.sub(r"[^A-Za-z0-9]", "-", str(cwd.resolve())) / "chats"


def _session(file: Path, cwd: Path) -> NativeSession | None:
    first, updated = "", ""
    for record in records(file):
        updated = max(updated, text(record, "timestamp"))
        if not first and text(record, "type") == "user":
            first = _words(record)
    return NativeSession(file.stem, headline(first), updated, str(cwd)) if first else None


def _words(record: Table) -> str:
    parts = tables(table(record, "message"), "parts")
    return "\n".join(filter(None, (text(part, "text") for part in parts)))


def _events(record: Table, cwd: str) -> Iterator[Event]:
    match text(record, "type"):
        case "user":
            if words := _words(record):
                yield UserMessage(text=words, how="imported")
        case "assistant":
            for part in tables(table(record, "message"), "parts"):
                yield from _part(part, text(record, "uuid"), cwd)
        case "tool_result":
            yield from _result(record)


def _part(part: Table, id: str, cwd: str) -> Iterator[Event]:
    if words := text(part, "text"):
        if part.get("thought") is True:
            yield ThoughtChunk(message_id=f"{id}:thoughts", text=words)
        else:
            yield MessageChunk(message_id=id, text=words)
    if call := table(part, "functionCall"):
        name, input = text(call, "name"), storable(table(call, "args"))
        tool = vocabulary(name, "", input, ROW)
        yield ToolStarted(
            call_id=text(call, "id"),
            tool=tool,
            name=name,
            title=tools.title(tool, input, name=shown(name), cwd=cwd),
            input=input,
            paths=tools.paths_of(input),
        )


def _result(record: Table) -> Iterator[Event]:
    result = table(record, "toolCallResult")
    outcome: Literal["completed", "failed", "cancelled"] = "failed"
    match text(result, "status"):
        case "success":
            outcome = "completed"
        case "cancelled":
            outcome = "cancelled"
    yield ToolFinished(call_id=text(result, "callId"), outcome=outcome, content=_content(record))


def _content(record: Table) -> tuple[Content, ...]:
    result = table(record, "toolCallResult")
    display = table(result, "resultDisplay")
    if patch := text(display, "fileDiff"):
        return (Diff(text(display, "filePath") or text(display, "fileName"), patch=patch),)
    if words := text(result, "resultDisplay"):
        return (Text(words),)
    for part in tables(table(record, "message"), "parts"):
        response = table(table(part, "functionResponse"), "response")
        if words := text(response, "output") or text(response, "error"):
            return (Text(words),)
    return ()
