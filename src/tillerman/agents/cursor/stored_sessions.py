"""Lists and imports the conversations that Cursor stores; its own list command needs a terminal.

`chats/<hash>/<id>/` is what it resumes; the messages are in `projects/<the folder's
name>/agent-transcripts/<id>/<id>.jsonl`, which the editor writes too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from tillerman.agents.commands.json_files import headline, records
from tillerman.agents.decoding.fields import Table, storable, table, tables, text
from tillerman.core import tools
from tillerman.core.agent_admin import NativeSession
from tillerman.core.events import Event, MessageChunk, ToolFinished, ToolStarted, UserMessage
from tillerman.core.timestamps import rfc3339

_QUERY = re.compile(r"<user_query>(.*)</user_query>", re.DOTALL)  # next to attachments
_TOOLS = {
    "Shell": "Bash",
    "StrReplace": "Edit",
    "ApplyPatch": "Edit",
    "SemanticSearch": "SemSearch",
}


def sessions(home: Path, cwd: Path) -> list[NativeSession]:
    """The resumable conversations of a folder, newest first."""
    files = [file for file in _transcripts(home, cwd) if not lacks(home, file.stem)]
    found = [_session(file, cwd) for file in files]
    return sorted(found, key=lambda session: session.updated, reverse=True)


def lacks(home: Path, native_id: str) -> bool:
    """Whether the store has a known layout and does not contain this conversation."""
    ids = {folder.name for folder in home.glob("chats/*/*") if folder.is_dir()}
    return bool(ids) and native_id not in ids


def history(home: Path, session: NativeSession) -> Iterator[Event]:
    """The messages and tool calls; results of tool calls are not stored."""
    cwd = session.cwd or ""
    for file in _transcripts(home, Path(cwd)):
        if file.stem == session.native_id:
            for number, record in enumerate(records(file)):
                yield from _message_events(record, number, cwd)


def _transcripts(home: Path, cwd: Path) -> list[Path]:
    name = _slug(str(cwd.resolve()))
    folders = [folder for folder in home.glob("projects/*") if _slug(folder.name) == name]
    return [file for folder in folders for file in folder.glob("agent-transcripts/*/*.jsonl")]


def _session(file: Path, cwd: Path) -> NativeSession:
    updated = datetime.fromtimestamp(file.stat().st_mtime, UTC)
    stamp = rfc3339(updated, "seconds")
    messages = filter(None, (_prompt(one) for one in records(file) if text(one, "role") == "user"))
    return NativeSession(file.stem, headline(next(messages, file.stem)), stamp, str(cwd))


def _message_events(record: Table, number: int, cwd: str) -> Iterator[Event]:
    if text(record, "role") == "user":
        if prompt := _prompt(record):
            yield UserMessage(text=prompt, how="imported")
        return
    for place, part in enumerate(tables(table(record, "message"), "content")):
        match text(part, "type"):
            case "text" if words := text(part, "text"):
                yield MessageChunk(message_id=str(number), text=words)
            case "tool_use":
                yield from _used(part, f"{number}.{place}", cwd)


def _used(part: Table, call_id: str, cwd: str) -> Iterator[Event]:
    name, input = text(part, "name"), dict(storable(table(part, "input")))
    tool = _TOOLS.get(name, name)
    yield ToolStarted(
        call_id=call_id,
        tool=tool,
        name=name,
        title=tools.title(tool, input, name=name, cwd=cwd),
        input=input,
        paths=tools.paths_of(input),
    )
    yield ToolFinished(call_id=call_id, outcome="completed")


def _prompt(record: Table) -> str:
    message = "".join(text(part, "text") for part in tables(table(record, "message"), "content"))
    query = _QUERY.search(message)
    return (query[1] if query else message).strip()


def _slug(path: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", path).strip("-")
