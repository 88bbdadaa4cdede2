"""A session as a document: Markdown or one HTML page for people, JSON lines for programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bridle.core.events import Entry, encode
from bridle.sessions.export.markdown import to_markdown
from bridle.sessions.export.page import to_html

__all__ = ["to_html", "to_jsonl", "to_markdown"]


def to_jsonl(entries: Iterable[Entry]) -> Iterator[bytes]:
    for entry in entries:
        yield encode(entry) + b"\n"
