"""Decodes results of MCP and other tools: text, images, and anything else as JSON."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator

from tillerman.agents.decoding.fields import Table, storable, tables, text
from tillerman.core.events import Content, Image, Text
from tillerman.core.wire import AttachmentBytes


def content(blocks: list[Table]) -> Iterator[Content | AttachmentBytes]:
    """Decodes blocks of MCP, of dynamic tools and of function calls."""
    for block in blocks:
        match text(block, "type"):
            case "text" | "inputText" | "input_text":
                yield Text(text(block, "text"))
            case "image":
                yield from image(text(block, "data"), text(block, "mimeType"))
            case "inputImage" | "input_image":
                url = text(block, "imageUrl") or text(block, "image_url")
                head, _, data = url.partition(";base64,")
                yield from image(data, head.removeprefix("data:"))
            case _:
                yield Text(json.dumps(storable(block), ensure_ascii=False))


def output(item: Table, key: str) -> Iterator[Content | AttachmentBytes]:
    """Decodes a result that is text or blocks."""
    message = text(item, key)
    if message:
        yield Text(message)
    yield from content(tables(item, key))


def image(data: str, mime: str) -> Iterator[Content | AttachmentBytes]:
    import hashlib  # loads OpenSSL, and images are rare

    try:
        decoded = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        decoded = b""
    if not decoded:
        yield Text("(an image that cannot be decoded)")
        return
    yield AttachmentBytes(decoded)
    yield Image(mime or "application/octet-stream", hashlib.sha256(decoded).hexdigest())
