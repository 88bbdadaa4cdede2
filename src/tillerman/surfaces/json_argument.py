"""Parses a JSON object from a command-line argument or typed text."""

from __future__ import annotations

from typing import Any

from tillerman.core.errors import UsageError


def json_object(text: str, option: str, *, hint: str = "") -> dict[str, Any]:
    import json

    try:
        value = json.loads(text)
    except ValueError as error:
        raise UsageError(f"{option}: not JSON: {error}", hint=hint) from None
    if not isinstance(value, dict):
        raise UsageError(f"{option}: not a JSON object", hint=hint)
    return value
