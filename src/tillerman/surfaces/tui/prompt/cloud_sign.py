"""The sign before a task for a cloud agent: `&TEXT` is `/cloud launch TEXT`."""

from __future__ import annotations

SIGN = "&"


def meant(text: str) -> str:
    """The line that a typed one stands for."""
    return f"/cloud launch {text[1:].strip()}" if text.startswith(SIGN) else text
