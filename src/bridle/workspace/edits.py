"""Changes to files of the workspace: each puts a whole new file in place, and tells its diff."""

from __future__ import annotations

import os

from msgspec import Struct

from bridle.workspace import text
from bridle.workspace.confined import Root
from bridle.workspace.difference import Difference, difference
from bridle.workspace.file_names import shown
from bridle.workspace.refusal import Refused
from bridle.workspace.text import Encoding, lines_of

MOST_WRITTEN = 16 << 20
MOST_EDITED = 16 << 20
_MOST_COMPARED = 1 << 20  # bytes of a text whose difference is told
_MOST_TOLD = 200  # lines of a stale passage
_MOST_TOLD_TEXT = 16_000


class Edit(Struct, frozen=True):
    path: str
    created: bool
    size: int
    hash: str  # for the next `expected_hash`
    diff: str  # "" where nothing changed, or where it is too large
    added: int = 0  # lines
    removed: int = 0
    notes: tuple[str, ...] = ()


class _Old(Struct, frozen=True):
    """A file as it was when it was read."""

    status: os.stat_result
    hash: str
    text: str | None  # None: no text, or too much
    encoding: Encoding

    def same(self, now: os.stat_result) -> bool:
        was = self.status
        return (was.st_dev, was.st_ino, was.st_size, was.st_mtime_ns) == (
            now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns,
        )  # fmt: skip


def write_file(
    root: Root,
    path: str,
    content: str,
    expected_hash: str | None = None,
    create_parents: bool = True,
) -> Edit:
    try:
        data = content.encode()
    except UnicodeEncodeError:
        raise Refused("the content is no UTF-8 text", hint="leave lone surrogates out") from None
    if len(data) > MOST_WRITTEN:
        raise Refused(
            f"the content has {len(data)} bytes, at most {MOST_WRITTEN} are written at once",
            hint="write several files, or make it by a command",
        )
    old = _old(root, path, _MOST_COMPARED)
    told = shown("/".join(root.parts(path)))
    if expected_hash and (old is None or old.hash != expected_hash):
        now = "is not there any more" if old is None else f"is another now, its hash is {old.hash}"
        raise Refused(f"{told} {now}", hint="read it again, then write what should be in it")
    return _put(root, path, told, old, data, content, create_parents=create_parents)


def replace_lines_in_file(
    root: Root, path: str, start: int, end: int, new_text: str, expected_old_text: str
) -> Edit:
    """Lines `start` to `end`, counted from 1; with `end` one below `start`, before line `start`."""
    told = shown("/".join(root.parts(path)))
    old = _old(root, path, MOST_EDITED)
    if old is None:
        raise Refused(f"{told} is not there", hint="write_file makes new files")
    if old.text is None:
        raise Refused(
            f"{told} is no text, or has more than {MOST_EDITED} bytes",
            hint="change it by a command",
        )
    lines = lines_of(old.text)
    if start < 1 or end < start - 1 or end > len(lines):
        raise Refused(
            f"{told} has {len(lines)} lines: {start} to {end} are none of them",
            hint=f"to add at its end, start is {len(lines) + 1} and end {len(lines)}",
        )
    replaced = lines[start - 1 : end]
    if _plain("".join(replaced)) != _plain(expected_old_text):
        raise Refused(_stale(told, lines, start, end), hint="use these as expected_old_text")
    changed = _replaced(lines, start, end, new_text)
    try:
        data = old.encoding.encode(changed)
    except UnicodeEncodeError as error:
        raise Refused(
            f"{told} seems to be {old.encoding.name}, which has no {error.object[error.start]!r}",
            hint="leave it out, or write the whole file anew as UTF-8",
        ) from None
    return _put(root, path, told, old, data, changed, create_parents=False)


def _put(
    root: Root, path: str, told: str, old: _Old | None, data: bytes, content: str,
    *, create_parents: bool,
) -> Edit:  # fmt: skip
    def unchanged(now: os.stat_result | None) -> None:
        if (now is None) != (old is None) or (now and old and not old.same(now)):
            raise Refused(f"{told} changes at this moment", hint="read it again, then try again")

    written = root.write(path, [data], create_parents=create_parents, unchanged=unchanged)
    notes = []
    known = old is None or old.text is not None
    if known and len(data) <= _MOST_COMPARED and (not old or len(old.text or "") <= _MOST_COMPARED):
        diff = difference(told, old.text if old else None, content)
    else:
        diff = Difference()
        notes.append("the difference is not told: one of them is large, or was no text")
    if diff.left_out:
        notes.append(f"{diff.left_out} lines of the difference are not shown")
    return Edit(
        told,
        written.created,
        written.size,
        text.content_hash(data),
        diff.text,
        diff.added,
        diff.removed,
        tuple(notes),
    )


def _old(root: Root, path: str, most: int) -> _Old | None:
    if root.status(path) is None:
        return None
    file = root.open_file(path)
    try:
        status = os.fstat(file)
        seen = text.survey(file)
        if seen.encoding is None or seen.size > most:
            return _Old(status, seen.hash, None, text.UTF_8)
        data = b"".join(text.chunks(file, end=most))
        return _Old(status, seen.hash, seen.encoding.decode(data), seen.encoding)
    finally:
        os.close(file)


def _plain(passage: str) -> str:
    return passage.replace("\r\n", "\n").removesuffix("\n")


def _replaced(lines: list[str], start: int, end: int, new_text: str) -> str:
    """With the file's own line ends, and a line feed at its end only where there was one."""
    near = lines[max(start - 2, 0) : end + 1] or ["\n"]
    ends = "\r\n" if near[0].endswith("\r\n") else "\n"
    fresh = [line.removesuffix("\n") + ends for line in lines_of(new_text.replace("\r\n", "\n"))]
    before, after = lines[: start - 1], lines[end:]
    if fresh and before and not before[-1].endswith("\n"):
        before[-1] += ends
    result = [*before, *fresh, *after]
    if result and lines and not lines[-1].endswith("\n"):
        result[-1] = result[-1].removesuffix("\n").removesuffix("\r")
    return "".join(result)


def _stale(told: str, lines: list[str], start: int, end: int) -> str:
    if end < start:
        return f"{told}: nothing is replaced before line {start}, so expected_old_text is empty"
    shown_lines = [
        f"{number}: {line.rstrip()[: text.LONGEST_LINE]}"
        for number, line in enumerate(lines[start - 1 : end][:_MOST_TOLD], start)
    ]
    passage = "\n".join(shown_lines)[:_MOST_TOLD_TEXT]
    cut = "" if end - start < _MOST_TOLD else f"\n… and {end - start + 1 - _MOST_TOLD} more"
    return f"{told} has other text in lines {start} to {end}:\n{passage}{cut}"
