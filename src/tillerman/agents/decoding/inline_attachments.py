"""Inlines attached files into the prompt text, for agents without a field for attachments."""

from __future__ import annotations

from tillerman.core.agent import File
from tillerman.core.errors import Unsupported


def quoted(file: File, body: str) -> str:
    return f'<file name="{file.name}">\n{body}\n</file>'


def in_words(agent: str, file: File, *, where: str = "", hint: str) -> str:
    """Raises `Unsupported` for a file that is not text; `hint` names what is accepted instead."""
    try:
        return quoted(file, file.data.decode())
    except UnicodeDecodeError:
        feature = f"attachments of type {file.mime}{where} ({file.name})"
        raise Unsupported(agent, feature, hint=hint) from None
