"""Exports a session as Markdown, as one HTML page, or as JSON lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from tillerman.core.events import Entry, encode
from tillerman.core.transcript.transcript import fold
from tillerman.sessions.export.html_page import to_html
from tillerman.sessions.export.markdown import to_markdown

__all__ = ["Format", "document", "to_html", "to_jsonl", "to_markdown"]

Format = Literal["markdown", "html", "jsonl"]


def to_jsonl(entries: Iterable[Entry]) -> Iterator[bytes]:
    for entry in entries:
        yield encode(entry) + b"\n"


def document(entries: Iterable[Entry], title: str | None, format: Format) -> Iterator[bytes]:
    match format:
        case "jsonl":
            yield from to_jsonl(entries)
        case "html":
            yield to_html(fold(entries), title).encode()
        case "markdown":
            yield to_markdown(fold(entries), title).encode()
