"""Server-sent events as bytes, by the HTML standard."""

from __future__ import annotations

import json
from typing import Any

KEEP_ALIVE = b": keep-alive\n\n"


def event(
    data: dict[str, Any], name: str | None = None, *, end: str = "\n", ascii_only: bool = False
) -> bytes:
    """One event. Some vendors send no `name`; `end` is the vendor's line end."""
    text = json.dumps(data, ensure_ascii=ascii_only, separators=(",", ":"))
    head = f"event: {name}{end}" if name else ""
    return f"{head}data: {text}{end}{end}".encode()
