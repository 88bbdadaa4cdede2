"""Finds the text to copy from a conversation: the last message, or its last code block."""

from __future__ import annotations

from collections.abc import Iterator

from tillerman.core.errors import UsageError
from tillerman.core.terminal_sanitizer import clean
from tillerman.core.transcript.blocks import Message
from tillerman.core.transcript.transcript import Transcript


def last_message(transcript: Transcript) -> str:
    for text in _messages(transcript):
        return text
    raise UsageError("the agent has not written anything yet", hint="send a prompt first")


def last_code(transcript: Transcript) -> str:
    for text in _messages(transcript):
        if blocks := _code(text):
            return blocks[-1]
    raise UsageError("the agent has not written any code yet", hint="/copy copies its last message")


def _messages(transcript: Transcript) -> Iterator[str]:
    """Sanitized messages, newest first."""
    for turn in reversed(transcript.turns):
        for block in reversed(turn.blocks):
            if isinstance(block, Message) and (text := clean(block.text).strip()):
                yield text


def _code(text: str) -> list[str]:
    from markdown_it import MarkdownIt

    tokens = MarkdownIt().parse(text)
    return [token.content for token in tokens if token.type in ("fence", "code_block")]
