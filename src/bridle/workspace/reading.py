"""A file of the workspace, read as text by lines, or whole as base64."""

from __future__ import annotations

import base64
import os
from typing import Literal

from msgspec import Struct

from bridle.workspace import text
from bridle.workspace.confined import Root
from bridle.workspace.file_names import shown
from bridle.workspace.refusal import Refused
from bridle.workspace.text import LineEnds, Survey

LINES = 2_000
MOST_LINES = 10_000
MOST_BINARY = 1 << 20

Binary = Literal["refuse", "base64"]


class FileText(Struct, frozen=True):
    path: str
    text: str  # lines parted by a line feed, whatever parts them in the file
    size: int  # bytes of the whole file
    encoding: str  # "base64" for what is no text
    first: int = 1  # the numbers of the first and the last line
    last: int = 0
    lines: int | None = None  # of the whole file; None: too large to be counted
    line_ends: LineEnds = "none"
    hash: str = ""  # of the whole file, for `expected_hash`; "" for a very large one
    next: int | None = None  # where to go on reading
    notes: tuple[str, ...] = ()


def read_file(
    root: Root, path: str, offset: int = 1, limit: int = LINES, binary: Binary = "refuse"
) -> FileText:
    if offset < 1 or not 1 <= limit <= MOST_LINES:
        raise Refused(
            f"offset {offset} and limit {limit} are not what a reader takes",
            hint=f"lines are counted from 1, limit is 1 to {MOST_LINES}",
        )
    file = root.open_file(path)
    try:
        told = shown("/".join(root.parts(path)))
        seen = text.survey(file)
        if seen.encoding is None:
            return _binary(file, told, seen, binary)
        return _lines(file, told, seen, seen.encoding, offset, limit)
    finally:
        os.close(file)


def _lines(
    file: int, path: str, seen: Survey, encoding: text.Encoding, offset: int, limit: int
) -> FileText:
    window = text.window(file, encoding, offset, limit)
    if not window.lines and offset > 1:
        there = f"{seen.lines} lines" if seen.lines is not None else "fewer lines"
        raise Refused(f"{path} has {there}, none is number {offset}", hint="use a lower offset")
    last = offset + len(window.lines) - 1
    notes = []
    if encoding.guessed:
        notes.append("this is no UTF-8: it was taken for latin-1, which may be wrong")
    if window.cut:
        notes.append(f"{window.cut} lines are cut off after {text.LONGEST_LINE} characters")
    if seen.line_ends == "mixed":
        notes.append("some lines end in CRLF, some in LF")
    if window.more:
        of = f" of {seen.lines}" if seen.lines is not None else ""
        notes.append(f"lines {offset} to {last}{of} are shown: go on with offset {last + 1}")
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


def _binary(file: int, path: str, seen: Survey, binary: Binary) -> FileText:
    if binary != "base64":
        raise Refused(
            f"{path} is no text, {seen.size} bytes",
            hint="binary=base64 gives it as it is; export_file hands it to the user",
        )
    if seen.size > MOST_BINARY:
        raise Refused(
            f"{path} has {seen.size} bytes: at most {MOST_BINARY} are given as base64",
            hint="export it, or look into it with a command",
        )
    data = b"".join(text.chunks(file, end=MOST_BINARY))
    encoded = base64.b64encode(data).decode()
    return FileText(path, encoded, len(data), "base64", hash=text.content_hash(data))
