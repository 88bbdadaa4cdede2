"""The blocks of an editor's prompt as the text and files of ours."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from tillerman.core.agent import File
from tillerman.core.json_fields import Table, table, text
from tillerman.surfaces.acp.errors import InvalidParams
from tillerman.surfaces.prompt_files import ATTACHMENT_CAP, mime_of

_MENTIONS = ("resource_link", "resource")
_CONTINUES = tuple(" \t\n,.;:!?)'")
ReadBuffer = Callable[[str], Awaitable[str | None]]  # the editor's text of a file; None: not open


class EditorPrompt(NamedTuple):
    text: str
    files: tuple[File, ...]


async def read(blocks: Sequence[Any], read_buffer: ReadBuffer) -> EditorPrompt:
    """Files that the editor has changed and not saved are attached as it shows them."""
    words: list[str] = []
    files: list[File] = []
    last = ""  # the kind of the block before
    for block in blocks:
        if not isinstance(block, dict):
            raise InvalidParams("a block of the prompt is not an object")
        kind = text(block, "type")
        if kind == "text":
            said = text(block, "text")
            words += [_between(last, said), said]
        elif kind == "resource_link":
            mention, file = await _link(block, read_buffer)
            words += [" " if last in _MENTIONS else "", mention]
            files += [file] if file else []
        elif kind == "resource":
            mention, file = _resource(table(block, "resource"), len(files))
            words += [" " if last in _MENTIONS else "", mention]
            files.append(file)
        elif kind == "image":
            files.append(_image(block, len(files)))
        else:
            raise InvalidParams(
                f"the prompt has a block of type {kind!r}",
                hint="text, image, resource and resource_link are accepted",
            )
        last = kind
    return EditorPrompt("".join(words), tuple(files))


def _between(last: str, said: str) -> str:
    """Separates a text from the block before it, unless it continues a sentence with a mention."""
    if last == "text" or (last in _MENTIONS and said[:1] not in _CONTINUES and said):
        return "\n"
    return ""


async def _link(block: Table, read_buffer: ReadBuffer) -> tuple[str, File | None]:
    uri = text(block, "uri")
    path = file_path(uri)
    if path is None:
        return uri or text(block, "name"), None
    mention = f"@{path}" + _lines_of(uri)
    unsaved = await read_buffer(path)
    if unsaved is None or unsaved == _on_disk(Path(path)):
        return mention, None
    return mention, File(f"{Path(path).name} (not saved yet)", "text/plain", unsaved.encode())


def _resource(resource: Table, number: int) -> tuple[str, File]:
    uri = text(resource, "uri")
    path = file_path(uri)
    name = (path or uri).rstrip("/").rpartition("/")[2] or f"resource-{number + 1}"
    mime = text(resource, "mimeType")
    if isinstance(resource.get("text"), str):
        data = text(resource, "text").encode("utf-8", "replace")
        file = File(name, mime if mime.startswith("text/") else "text/plain", data)
    else:
        data = _decoded(text(resource, "blob"))
        file = File(name, mime or mime_of(name, data), data)
    return (f"@{path}{_lines_of(uri)}" if path else f"@{name}"), file


def _image(block: Table, number: int) -> File:
    mime, data = text(block, "mimeType"), _decoded(text(block, "data"))
    if not data:
        raise InvalidParams("an image of the prompt has no data")
    name = (file_path(text(block, "uri")) or "").rpartition("/")[2]
    extension = mime.rpartition("/")[2] or "png"
    return File(name or f"image-{number + 1}.{extension}", mime or "image/png", data)


def _decoded(data: str) -> bytes:
    if len(data) > ATTACHMENT_CAP * 4 // 3 + 4:
        raise InvalidParams(f"a file of the prompt is larger than {ATTACHMENT_CAP // 2**20} MB")
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidParams("a file of the prompt is not base64") from None


def file_path(uri: str) -> str | None:
    """The path of a `file:` URI, or of an absolute path in its place; None for any other."""
    if uri.startswith("/"):
        return uri
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        return None
    path = unquote(parts.path)
    return path if path.startswith("/") and "\0" not in path else None


def _lines_of(uri: str) -> str:
    """` (lines 3-7)` for the fragment `#L3:7` that some editors add."""
    fragment = uri.partition("#")[2].removeprefix("L")
    numbers = fragment.replace(":", "-").replace("-L", "-")
    return f" (lines {numbers})" if numbers[:1].isdigit() else ""


def _on_disk(path: Path) -> str | None:
    try:
        if not path.is_file() or path.stat().st_size > ATTACHMENT_CAP:
            return None
        return path.read_text("utf-8")
    except (OSError, ValueError):
        return None
