"""The history of a session as updates: messages in one piece, the output of a call once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tillerman.core.events import (
    Entry,
    MessageChunk,
    MessageWithdrawn,
    Notice,
    ThoughtChunk,
    ToolUpdated,
)
from tillerman.core.json_fields import Table
from tillerman.surfaces.acp.updates import SessionUpdates

Void = frozenset[tuple[int, str]]  # turn and message of chunks that were withdrawn


def history(entries: Iterable[Entry], updates: SessionUpdates, void: Void) -> Iterator[Table]:
    """Yields the updates of these entries, as the editor would have kept them."""
    yield from joined(_told(entries, updates, void))


def _told(entries: Iterable[Entry], updates: SessionUpdates, void: Void) -> Iterator[Table]:
    usage: list[Table] = []  # the last one
    running: dict[str, list[Table]] = {}  # progress of calls that have not ended yet
    for entry in entries:
        event = entry.event
        if isinstance(event, Notice | MessageWithdrawn):
            continue  # for who was there
        chunk = isinstance(event, MessageChunk | ThoughtChunk)
        if chunk and (entry.turn, getattr(event, "message_id", "")) in void:
            continue
        for update in updates.encode(entry):
            if update["sessionUpdate"] == "usage_update":
                usage = [update]
            elif isinstance(event, ToolUpdated):
                running.setdefault(event.call_id, []).append(update)
            else:
                yield from _last(running.pop(getattr(event, "call_id", ""), []))
                yield update
    for progress in running.values():
        yield from _last(progress)
    yield from usage


def joined(updates: Iterable[Table]) -> Iterator[Table]:
    """Joins neighbouring chunks of one message."""
    open: Table | None = None
    pieces: list[str] = []
    for update in updates:
        text = _text(update)
        if open and text is not None and _key(update) == _key(open):
            pieces.append(text)
            continue
        if open:
            yield _whole(open, pieces)
        open, pieces = (None, []) if text is None else (update, [text])
        if text is None:
            yield update
    if open:
        yield _whole(open, pieces)


def _text(update: Table) -> str | None:
    """The text of a chunk; None for any other update."""
    content = update.get("content")
    if "messageId" not in update or not isinstance(content, dict) or content["type"] != "text":
        return None
    text: str = content["text"]
    return text


def _key(update: Table) -> tuple[str, str]:
    return update["sessionUpdate"], update["messageId"]


def _whole(open: Table, pieces: list[str]) -> Table:
    return {**open, "content": {"type": "text", "text": "".join(pieces)}}


def _last(progress: list[Table]) -> Iterator[Table]:
    """The members of all updates, of which the newest count."""
    if progress:
        yield {name: value for update in progress for name, value in update.items()}
