"""Converts a stored Codex thread to events, without its turn boundaries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from tillerman.agents.codex.messages import CodexMessages
from tillerman.agents.codex.thread_items.items import KINDS, Items
from tillerman.agents.decoding.fields import Table, tables, text
from tillerman.core.events import Event, UserMessage
from tillerman.core.wire import AttachmentBytes


def events(turns: Sequence[Table], cwd: str | None) -> list[Event]:
    items = Items(str(cwd or Path("/")))
    speech = CodexMessages()
    found = [
        event
        for turn in turns
        for item in tables(turn, "items")
        for event in _events(item, items, speech)
    ]
    return [event for event in found if not isinstance(event, AttachmentBytes)]


def _events(item: Table, items: Items, speech: CodexMessages) -> Iterator[Event | AttachmentBytes]:
    match text(item, "type"):
        case "userMessage":
            words = [text(block, "text") for block in tables(item, "content")]
            if message := "\n".join(filter(None, words)):
                yield UserMessage(text=message, how="imported")
        case "agentMessage" | "plan" | "reasoning":
            yield from speech.whole(item, None)
        case kind if kind in KINDS:
            yield from items.completed(item, "", None)
