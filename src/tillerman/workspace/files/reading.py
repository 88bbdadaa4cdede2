"""Reads a file of the workspace: as text by lines, as an image, or as base64."""

from __future__ import annotations

import base64
import os
from typing import Literal

from msgspec import Struct

from tillerman.supervision.secrets import Secrets
from tillerman.workspace.files.access.confined_root import ConfinedRoot
from tillerman.workspace.files.content import images
from tillerman.workspace.files.content import text_decoding as text
from tillerman.workspace.files.content.redacted_text import RedactedText
from tillerman.workspace.files.content.text_decoding import LineEnds, Survey, Window
from tillerman.workspace.files.file_names import shown
from tillerman.workspace.files.refusal import Refused

LINES = 2_000
MOST_LINES = 10_000
MOST_BINARY = 1 << 20
MOST_EDITED = 16 << 20  # bytes of a text that tools edit, and load as a whole
_LONGEST_SECRET = 300  # lines

Binary = Literal["refuse", "base64"]


class ImageFile(Struct, frozen=True):
    """An image file. `data` is base64."""

    path: str
    size: int
    mime: str
    width: int
    height: int
    data: str


class FileText(Struct, frozen=True):
    path: str
    text: str  # lines joined by a line feed, whatever the file uses
    size: int  # bytes of the whole file
    encoding: str  # "base64" if it is not a text
    first: int = 1  # the numbers of the first and the last line
    last: int = 0
    lines: int | None = None  # of the whole file; None: too large to be counted
    line_ends: LineEnds = "none"
    hash: str = ""  # of the whole file, for `expected_hash`; "" for a very large one
    next: int | None = None  # offset of the next page
    notes: tuple[str, ...] = ()


def read_file(
    root: ConfinedRoot,
    secrets: Secrets,
    path: str,
    offset: int = 1,
    limit: int = LINES,
    binary: Binary = "refuse",
) -> FileText | ImageFile:
    if offset < 1 or not 1 <= limit <= MOST_LINES:
        raise Refused(
            f"offset {offset} or limit {limit} is out of range",
            hint=f"use offset from 1, limit 1 to {MOST_LINES}",
        )
    file = root.open_file(path)
    try:
        shown_path = shown("/".join(root.parts(path)))
        seen = text.survey(file)
        if seen.encoding is None:
            return _binary(file, shown_path, seen, binary, secrets)
        return _lines(file, shown_path, seen, seen.encoding, offset, limit, secrets)
    finally:
        os.close(file)


def _lines(
    file: int,
    path: str,
    seen: Survey,
    encoding: text.Encoding,
    offset: int,
    limit: int,
    secrets: Secrets,
) -> FileText:
    if seen.size <= MOST_EDITED:
        redacted = RedactedText("".join(text.pieces(file, encoding)), secrets)
        window = text.window([redacted.text], offset, limit)
    else:
        redacted, window = _of_a_large_file(file, encoding, offset, limit, secrets)
    if not window.lines and offset > 1:
        there = f"{seen.lines} lines" if seen.lines is not None else "fewer lines"
        raise Refused(
            f"{path} has {there}: offset {offset} is out of range", hint="use a lower offset"
        )
    last = offset + len(window.lines) - 1
    notes = []
    if encoding.guessed:
        notes.append("not UTF-8: it was decoded as latin-1, which may be wrong")
    if encoding.damaged:
        notes.append(
            f"some bytes are not valid {encoding.name} and are shown as U+FFFD: the file cannot be "
            "edited by tools"
        )
    if window.cut:
        notes.append(f"{window.cut} lines are truncated after {text.LONGEST_LINE} characters")
    if seen.line_ends == "mixed":
        notes.append("some lines end in CRLF, some in LF")
    if hidden := redacted.hidden_in("\n".join(window.lines)):
        writable = seen.size <= MOST_EDITED and not encoding.damaged
        notes.append(_hidden(hidden, writable=writable))
    if window.more:
        of = f" of {seen.lines}" if seen.lines is not None else ""
        notes.append(f"lines {offset} to {last}{of} are shown: continue with offset {last + 1}")
    return FileText(
        path,
        "\n".join(window.lines),
        seen.size,
        encoding.name,
        offset,
        last,
        seen.lines,
        seen.line_ends,
        seen.hash,
        last + 1 if window.more else None,
        tuple(notes),
    )


def _hidden(count: int, *, writable: bool) -> str:
    what = f"{count} placeholders [secret:…] stand for redacted secrets"
    if not writable:
        return f"{what}: the file cannot be edited by tools"
    return (
        f"{what}: keep each one unchanged when you write this file, and the secret is restored; "
        "omit it to remove the secret"
    )


def _of_a_large_file(
    file: int, encoding: text.Encoding, offset: int, limit: int, secrets: Secrets
) -> tuple[RedactedText, Window]:
    """Reads enough lines around the window that no secret is cut."""
    before = min(offset - 1, _LONGEST_SECRET)
    around = text.window(
        text.pieces(file, encoding),
        offset - before,
        before + limit + _LONGEST_SECRET,
        room=3 * text.MOST_TEXT,
    )
    redacted = RedactedText("\n".join(around.lines), secrets)
    window = text.window([redacted.text], before + 1, limit)
    return redacted, window._replace(cut=around.cut, more=window.more or around.more)


def _binary(
    file: int, path: str, seen: Survey, binary: Binary, secrets: Secrets
) -> FileText | ImageFile:
    if binary != "base64":
        return _image(file, path, seen, secrets)
    if seen.size > MOST_BINARY:
        raise Refused(
            f"{path} has {seen.size} bytes: at most {MOST_BINARY} can be returned as base64",
            hint="export it, or inspect it with a command",
        )
    data = b"".join(text.chunks(file, end=MOST_BINARY))
    if secrets.finds(data):  # base64 would hide it from redaction, or be broken by it
        raise Refused(f"{path} is not text and contains a secret", hint="export it for the user")
    encoded = base64.b64encode(data).decode()
    return FileText(path, encoded, len(data), "base64", hash=text.content_hash(data))


def _image(file: int, path: str, seen: Survey, secrets: Secrets) -> ImageFile:
    data = b"".join(text.chunks(file, end=images.MOST_BYTES))
    kind = images.image_kind(data) if len(data) == seen.size else None
    if kind is None:
        large = f" (images up to {images.MOST_BYTES} bytes are shown)"
        raise Refused(
            f"{path} is not text, {seen.size} bytes{large if seen.size > len(data) else ''}",
            hint="binary=base64 returns the raw bytes; export_file gives it to the user",
        )
    if max(kind.width, kind.height) > images.MOST_PIXELS:
        raise Refused(
            f"{path} is an image of {kind.width} x {kind.height} pixels: at most "
            f"{images.MOST_PIXELS} per side can be shown",
            hint="resize it with a command, or export it",
        )
    if secrets.finds(data):
        raise Refused(f"{path} is an image that contains a secret", hint="export it for the user")
    encoded = base64.b64encode(data).decode()
    return ImageFile(path, len(data), kind.mime, kind.width, kind.height, encoded)
