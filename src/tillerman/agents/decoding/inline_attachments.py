"""A file that goes with a prompt, put into its words: where an agent has no better place for it."""

from __future__ import annotations

from tillerman.core.agent import File
from tillerman.core.errors import Unsupported


def quoted(file: File, body: str) -> str:
    return f'<file name="{file.name}">\n{body}\n</file>'


def in_words(agent: str, file: File, *, where: str = "", hint: str) -> str:
    """Raises `Unsupported` for one that is no text; `hint` says what is taken, or what to do."""
    try:
        return quoted(file, file.data.decode())
    except UnicodeDecodeError:
        feature = f"attachments of type {file.mime}{where} ({file.name})"
        raise Unsupported(agent, feature, hint=hint) from None
