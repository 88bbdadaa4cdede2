"""Content of tool calls in ACP: text, images, and diffs with their old and new text."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from tillerman.core.events import Content, Diff, Image, Text
from tillerman.core.json_fields import Table
from tillerman.core.tools import WRITES
from tillerman.sessions.export.patch import hunks
from tillerman.surfaces.rendering.proposed_changes import Unreadable, current_text
from tillerman.surfaces.rendering.proposed_edits import (
    Deletion,
    FileEdit,
    Hunk,
    Insertion,
    Replacement,
    Whole,
    edits_of,
)

Images = Callable[[str], bytes | None]  # by hash


def text_content(text: str) -> Table:
    return {"type": "content", "content": {"type": "text", "text": text}}


def absolute(path: str, cwd: str) -> str:
    return str(PurePosixPath(cwd, path))


def contents(parts: Sequence[Content], cwd: str, images: Images) -> Iterator[Table]:
    for part in parts:
        match part:
            case Text():
                yield text_content(shown(part))
            case Diff():
                yield from _diffs(part, cwd)
            case Image(mime=mime, hash=name):
                yield {"type": "content", "content": image(mime, images(name))}


def image(mime: str, data: bytes | None) -> Table:
    if data is None:
        return {"type": "text", "text": "(an image that is no longer stored)"}
    return {"type": "image", "mimeType": mime, "data": base64.b64encode(data).decode()}


def shown(part: Text) -> str:
    cut = f"\n… {part.cut.left_out} bytes are left out" if part.cut else ""
    return part.text + cut


def output(parts: Sequence[Content]) -> str:
    """The text of a result."""
    return "\n".join(shown(part) for part in parts if isinstance(part, Text))


def proposed(
    tool: str,
    input: Mapping[str, Any],
    paths: Sequence[str],
    cwd: str,
    *,
    against_files: bool = False,
) -> Iterator[Table]:
    """Diffs of what a call would change, as far as its input shows it.

    `against_files`: nothing has changed yet, so that a file that is replaced is as it was.
    """
    if tool not in WRITES:
        return
    for edit in edits_of(tool, input, paths):
        path = absolute(edit.path, cwd)
        yield from _of_edit(edit, path, _standing(path) if against_files else None)


def _of_edit(edit: FileEdit, path: str, before: str | None) -> Iterator[Table]:
    for step in edit.steps:
        match step:
            case Whole(text=text):
                yield _diff(path, before, text)
            case Deletion():
                if before is not None:
                    yield _diff(path, before, "")
            case Replacement(old=old, new=new):
                yield _diff(path, old or None, new)
            case Hunk(old=removed, new=added):
                yield _diff(path, "\n".join(removed) or None, "\n".join(added))
            case Insertion(text=text):
                yield _diff(path, "", text)


def _standing(path: str) -> str | None:
    """Text of the file, if it exists and is not too large to compare."""
    try:
        return current_text(Path(path))
    except Unreadable:
        return None


def _diffs(diff: Diff, cwd: str) -> Iterator[Table]:
    """One diff, or one for each hunk of a patch."""
    path = absolute(diff.path, cwd)
    if diff.patch is None or diff.new is not None:
        yield _diff(path, diff.old, diff.new or "")
        return
    old: list[str] = []
    new: list[str] = []
    for line in [*hunks(diff), "@@"]:
        if line.startswith("@@"):
            if old or new:
                yield _diff(path, "\n".join(old) if old else None, "\n".join(new))
            old, new = [], []
        elif line.startswith("\\"):  # no newline at the end of the file
            continue
        else:
            if line[:1] != "+":
                old.append(line[1:])
            if line[:1] != "-":
                new.append(line[1:])


def _diff(path: str, old: str | None, new: str) -> Table:
    return {"type": "diff", "path": path, "oldText": old, "newText": new}
