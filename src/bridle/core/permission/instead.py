"""What to say to an agent that cannot be given other input: what to ask for instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def instead(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    changed = {key: value for key, value in new.items() if old.get(key) != value}
    words = changed.get("command")
    if len(changed) != 1 or not isinstance(words, str):
        words = ", ".join(f"{key} = {value!r}" for key, value in changed.items())
    return f"use `{words}` instead"
