"""Encodes a prompt as ACP content blocks."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from tillerman.agents.decoding.inline_attachments import quoted
from tillerman.core.agent import File, Prompt
from tillerman.core.errors import Unsupported
from tillerman.core.events import Notice

_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


def is_image(file: File) -> bool:
    return file.mime in _IMAGES


def refuse_files(agent: str, prompt: Prompt) -> None:
    """Rejects files that no ACP agent accepts; image support is known only after `initialize`."""
    for file in prompt.files:
        if not is_image(file) and _text(file) is None:
            raise Unsupported(
                agent,
                f"attachments of type {file.mime} ({file.name})",
                hint="it accepts text, PNG, JPEG, GIF and WebP; refer to other files by path",
            )


def images_in_doubt(agent: str, prompt: Prompt) -> list[Notice]:
    """Warns about images, for an agent that silently drops them for some models."""
    names = [file.name for file in prompt.files if is_image(file)]
    if not names:
        return []
    text = (
        f"{agent} passes images on only to a model that it knows to take them: any other does not "
        f"see {', '.join(names)}"
    )
    return [Notice(level="warning", kind="session", text=text)]


def blocks(prompt: Prompt, *, preamble: str = "", embeds: bool = False) -> list[dict[str, Any]]:
    """Encodes the prompt; `embeds`: whether the agent accepts files as embedded resources.

    If there is an image, files are sent as plain text: some agents drop the image otherwise.
    """
    embeds = embeds and not any(map(is_image, prompt.files))
    return list(_blocks(prompt, preamble, embeds))


def _blocks(prompt: Prompt, preamble: str, embeds: bool) -> Iterator[dict[str, Any]]:
    if preamble:
        yield {"type": "text", "text": f"<instructions>\n{preamble}\n</instructions>"}
    for file in prompt.files:
        body = _text(file)
        if is_image(file):
            data = base64.b64encode(file.data).decode()
            yield {"type": "image", "mimeType": file.mime, "data": data}
        elif embeds:
            resource = {"uri": f"attachment:{quote(file.name)}", "mimeType": file.mime}
            yield {"type": "resource", "resource": {**resource, "text": body}}
        else:
            yield {"type": "text", "text": quoted(file, body or "")}
    if prompt.text or not prompt.files:
        yield {"type": "text", "text": prompt.text}


def _text(file: File) -> str | None:
    try:
        return file.data.decode()
    except UnicodeDecodeError:
        return None
