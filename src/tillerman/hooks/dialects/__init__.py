"""Hook dialects, one per CLI: decodes its hook events, encodes replies, writes its hook config."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tillerman.core.errors import UsageError

if TYPE_CHECKING:
    from tillerman.hooks.dialects.dialect import HookDialect

AGENTS = ("claude", "codex", "copilot", "cursor", "gemini", "opencode", "qwen")


def load(agent: str) -> HookDialect:
    """Loads the dialect of this agent only."""
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
    raise UsageError(
        f"tillerman does not support hooks of {agent}", hint=f"agents with hooks: {known}"
    )


def spoken(agent: str, payload: bytes) -> HookDialect:
    """The dialect of a payload: Cursor also runs hooks that were configured for Claude Code."""
    from tillerman.hooks.dialects.payload_codec import table_of

    given = table_of(payload)
    cursors = isinstance(given, dict) and "cursor_version" in given
    return load("cursor" if cursors else agent)
