"""How each CLI speaks to its hooks: typed events, replies in its own form, its config."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tillerman.core.errors import UsageError

if TYPE_CHECKING:
    from tillerman.hooks.dialects.dialect import HookDialect

AGENTS = ("claude", "codex", "copilot", "cursor", "gemini", "opencode", "qwen")


def load(agent: str) -> HookDialect:
    """The one of this agent; no other is loaded."""
    match agent:
        case "claude":
            from tillerman.hooks.dialects.claude import dialect as claude

            return claude
        case "codex":
            from tillerman.hooks.dialects.codex import dialect as codex

            return codex
        case "copilot":
            from tillerman.hooks.dialects.copilot import dialect as copilot

            return copilot
        case "cursor":
            from tillerman.hooks.dialects import cursor

            return cursor
        case "gemini":
            from tillerman.hooks.dialects.gemini import dialect as gemini

            return gemini
        case "opencode":
            from tillerman.hooks.dialects.opencode import dialect as opencode

            return opencode
        case "qwen":
            from tillerman.hooks.dialects.qwen import dialect as qwen

            return qwen
    known = ", ".join(AGENTS)
    raise UsageError(f"{agent} has no hooks that tillerman knows", hint=f"those that have: {known}")


def spoken(agent: str, payload: bytes) -> HookDialect:
    """Whose words these are: Cursor runs hooks that were set for Claude Code too."""
    from tillerman.hooks.dialects.payload_codec import table_of

    given = table_of(payload)
    cursors = isinstance(given, dict) and "cursor_version" in given
    return load("cursor" if cursors else agent)
