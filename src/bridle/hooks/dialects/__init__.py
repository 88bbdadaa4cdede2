"""How each CLI speaks to its hooks: typed events, replies in its own form, its config."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bridle.core.errors import UsageError

if TYPE_CHECKING:
    from bridle.hooks.dialects.dialect import Dialect

AGENTS = ("claude", "codex", "copilot", "cursor", "gemini", "opencode", "qwen")


def load(agent: str) -> Dialect:
    """The one of this agent; no other is loaded."""
    match agent:
        case "claude":
            from bridle.hooks.dialects.claude import dialect as claude

            return claude
        case "codex":
            from bridle.hooks.dialects.codex import dialect as codex

            return codex
        case "copilot":
            from bridle.hooks.dialects.copilot import dialect as copilot

            return copilot
        case "cursor":
            from bridle.hooks.dialects import cursor

            return cursor
        case "gemini":
            from bridle.hooks.dialects.gemini import dialect as gemini

            return gemini
        case "opencode":
            from bridle.hooks.dialects.opencode import dialect as opencode

            return opencode
        case "qwen":
            from bridle.hooks.dialects.qwen import dialect as qwen

            return qwen
    known = ", ".join(AGENTS)
    raise UsageError(f"{agent} has no hooks that bridle knows", hint=f"those that have: {known}")


def spoken(agent: str, payload: bytes) -> Dialect:
    """Whose words these are: Cursor runs hooks that were set for Claude Code too."""
    from bridle.hooks.dialects.payload_codec import table_of

    given = table_of(payload)
    cursors = isinstance(given, dict) and "cursor_version" in given
    return load("cursor" if cursors else agent)
