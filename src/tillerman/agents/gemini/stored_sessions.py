"""Lists, imports and repairs the sessions that Gemini CLI stores on disk.

`~/.gemini/tmp/PROJECT/chats/session-MINUTE-ID8.jsonl`, where PROJECT is the name that
`projects.json` gives to a folder. A line describes the session, is a message, or is a `$set` that
updates earlier lines. (`--list-sessions` would call the model for titles first.)
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Literal

from tillerman.agents.acp.tools import vocabulary
from tillerman.agents.commands.json_files import headline, records, settings
from tillerman.agents.decoding.fields import Table, at, count, storable, table, tables, text
from tillerman.agents.gemini.launch import ROW
from tillerman.agents.stdio.recorded_conversation import Recorded
from tillerman.core import tools
from tillerman.core.agent_admin import NativeSession
from tillerman.core.events import (
    Content,
    Diff,
    Event,
    MessageChunk,
    Notice,
    Text,
    ThoughtChunk,
    ToolFinished,
    ToolStarted,
    UserMessage,
)

_WAITS = (
    "waiting {} s to resume: Gemini CLI loses a conversation that is resumed within a minute of "
    "its start"
)
_END = 1024 * 1024  # bytes read at the end of a file


def sessions(home: Path, cwd: Path) -> list[NativeSession]:
    """The sessions of a folder that have messages, newest first."""
    found = [_session(file, cwd) for file in _folder(home, cwd).glob("session-*.jsonl")]
    return sorted(filter(None, found), key=lambda each: each.updated, reverse=True)


def history(home: Path, session: NativeSession) -> list[Event]:
    """Imports a session; a resumed one may have several files, all but one of them empty."""
    chats = _folder(home, Path(session.cwd or ""))
    files = sorted(chats.glob(f"session-*-{session.native_id[:8]}.jsonl"))
    return [event for file in files for event in _events(file, session.cwd or "")]


async def out_of_its_minute(
    home: Path,
    native_id: str,
    report: Callable[[Notice], None],
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Waits for the next minute: a session resumed in its first minute loses its file."""
    waits = False
    while True:
        now = clock()
        minute = time.strftime("%Y-%m-%dT%H-%M", time.gmtime(now))
        if not any(home.glob(f"tmp/*/chats/session-{minute}-{native_id[:8]}.jsonl")):
            return
        seconds = 60 - now % 60 + 0.1
        if not waits:
            waits = True
            report(Notice(level="info", kind="session", text=_WAITS.format(math.ceil(seconds))))
        await sleep(seconds)


def drop_empty_files(home: Path, native_id: str) -> None:
    """Deletes the empty files of a session.

    Each load of a session leaves a file without messages, and because of one such file Gemini's own
    clean-up, at any start in the project, deletes all files of that session.
    """
    files = [file for file in _files(home, native_id) if _is_of(file, native_id)]
    empty = [file for file in files if not any(map(_has_content, _all_messages(file)))]
    if len(empty) < len(files):
        for file in empty:
            file.unlink(missing_ok=True)


def recorded(home: Path, native_id: str) -> Recorded | None:
    """The last prompt and reply in a session file; None if there is none.

    A prompt whose answer Gemini gave up is dropped from the file: all messages are set again
    without it.
    """
    prompts: Counter[str] = Counter()
    prompt, reply = "", None
    for record in (one for file in sorted(_files(home, native_id)) for one in _end_of(file)):
        if "id" not in record:
            again = Counter(map(_prompt, tables(table(record, "$set"), "messages")))
            if again and prompt and again[prompt] < prompts[prompt]:
                reply = None
        elif words := _prompt(record):
            prompts[words] += 1
            prompt, reply = words, None
        elif text(record, "type") == "gemini" and not tables(record, "toolCalls"):
            reply = text(record, "content")
        else:
            reply = None
    return Recorded(prompt, reply) if prompt else None


def cached(home: Path, native_id: str) -> dict[str, int]:
    """The cached tokens of each message at the end of a session file, by message id.

    Over ACP they are included in the input tokens.
    """
    messages = (one for file in sorted(_files(home, native_id)) for one in _end_of(file))
    return {
        text(one, "id"): count(table(one, "tokens"), "cached") for one in messages if "id" in one
    }


def switched(enablement: Table, name: str, on: bool) -> Table:
    """Edits `mcp-server-enablement.json`, which lists only disabled servers."""
    others = {key: value for key, value in enablement.items() if key != name.lower().strip()}
    return others if on else {**others, name.lower().strip(): {"enabled": False}}


def _files(home: Path, native_id: str) -> Iterator[Path]:
    return home.glob(f"tmp/*/chats/session-*-{native_id[:8]}.jsonl")


def _end_of(file: Path) -> Iterator[Table]:
    return records(file, last=_END)


def _is_of(file: Path, native_id: str) -> bool:
    return any(text(record, "sessionId") == native_id for record in records(file))


def _all_messages(file: Path) -> Iterator[Table]:
    return (message for record in records(file) for message in _messages(record))


def _has_content(message: Table) -> bool:
    return bool(_prompt(message)) or text(message, "type") == "gemini"


def _folder(home: Path, cwd: Path) -> Path:
    name = at(settings(home / "projects.json"), "projects", str(cwd.resolve()))
    return home / "tmp" / (name if isinstance(name, str) and name else "-") / "chats"


def _session(file: Path, cwd: Path) -> NativeSession | None:
    native_id, first, updated = "", "", ""
    for record in records(file):
        native_id = native_id or text(record, "sessionId")
        fields = table(record, "$set") or record
        updated = max(updated, text(fields, "lastUpdated"))
        first = first or next(filter(None, map(_prompt, _messages(record))), "")
    if not (native_id and first):
        return None
    return NativeSession(native_id, headline(first), updated, str(cwd))


def _messages(record: Table) -> Iterator[Table]:
    yield from tables(table(record, "$set"), "messages")
    if "id" in record:
        yield record


def _prompt(message: Table) -> str:
    """The user's prompt in a message; "" if there is none."""
    if text(message, "type") != "user":
        return ""
    content = "\n".join(text(part, "text") for part in tables(message, "content"))
    return "" if content.startswith("<session_context>") else content.strip()


def _events(file: Path, cwd: str) -> Iterator[Event]:
    """The events of a file; a message is written again with all its calls when one has ended."""
    seen: set[str] = set()
    for message in (one for record in records(file) for one in _messages(record)):
        id = text(message, "id")
        if id not in seen:
            seen.add(id)
            if prompt := _prompt(message):
                yield UserMessage(text=prompt, how="imported")
            yield from _message_events(message, id)
        for call in tables(message, "toolCalls"):
            if (call_id := text(call, "id")) not in seen:
                seen.add(call_id)
                yield from _call(call, call_id, cwd)


def _message_events(message: Table, id: str) -> Iterator[Event]:
    for thought in tables(message, "thoughts"):
        if words := text(thought, "description"):
            yield ThoughtChunk(message_id=f"{id}:thoughts", text=words)
    if text(message, "type") == "gemini" and (words := text(message, "content")):
        yield MessageChunk(message_id=id, text=words)


def _call(call: Table, call_id: str, cwd: str) -> Iterator[Event]:
    name, input = text(call, "name"), storable(table(call, "args"))
    tool = vocabulary(name, "", input, ROW)
    yield ToolStarted(
        call_id=call_id,
        tool=tool,
        name=name,
        title=tools.title(tool, input, name=name.removeprefix("mcp_"), cwd=cwd),
        input=input,
        paths=tools.paths_of(input),
    )
    outcome: Literal["completed", "failed", "cancelled"] = "failed"
    match text(call, "status"):
        case "success":
            outcome = "completed"
        case "cancelled":
            outcome = "cancelled"
    yield ToolFinished(call_id=call_id, outcome=outcome, content=_content(call))


def _content(call: Table) -> tuple[Content, ...]:
    if patch := text(table(call, "resultDisplay"), "fileDiff"):
        return (Diff(next(iter(tools.paths_of(table(call, "args"))), ""), patch=patch),)
    if words := text(call, "resultDisplay"):
        return (Text(words),)
    for result in tables(call, "result"):
        response = table(table(result, "functionResponse"), "response")
        if words := text(response, "output") or text(response, "error"):
            return (Text(words),)
    return ()
