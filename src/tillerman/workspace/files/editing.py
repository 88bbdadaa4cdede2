"""Edits text files of the workspace: replaces the whole file and reports a diff.

A text is edited as the model sees it, with placeholders for secrets, which are restored before it
is written. A file is read, changed and replaced under one lock, so that no update of another server
is lost; a change by any other program meanwhile makes the edit fail.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from tillerman.supervision.secrets import Secrets
from tillerman.workspace.files.access.confined_root import ConfinedRoot, Slot
from tillerman.workspace.files.access.draft_files import ObservedFile
from tillerman.workspace.files.content import text_decoding
from tillerman.workspace.files.content.passages import (
    is_passage,
    line_numbers,
    line_passage,
    nearest_passage,
    replace_lines,
    replace_places,
    text_places,
)
from tillerman.workspace.files.content.redacted_text import RedactedText
from tillerman.workspace.files.content.text_decoding import Encoding, LineEnds, lines_of
from tillerman.workspace.files.content.unified_diff import UnifiedDiff, difference
from tillerman.workspace.files.file_names import shown
from tillerman.workspace.files.reading import MOST_EDITED
from tillerman.workspace.files.refusal import Refused

MOST_WRITTEN = 16 << 20


class AppliedEdit(Struct, frozen=True):
    path: str
    created: bool
    changed: bool
    size: int
    hash: str  # for the next `expected_hash`
    diff: str  # "" if unchanged, or if the old file is not a text or too large
    added: int | None = 0  # lines; None: unknown
    removed: int | None = 0
    notes: tuple[str, ...] = ()


class OldFile(Struct, frozen=True):
    """A file as it was when it was read."""

    seen: ObservedFile
    hash: str
    redacted: RedactedText | None  # None: not a text, damaged, or too large
    encoding: Encoding
    line_ends: LineEnds

    def is_unchanged(self) -> bool:
        """Compares the content: file times may have a resolution of some milliseconds."""
        if not self.seen.is_unchanged():
            return False
        return not self.hash or text_decoding.file_hash(self.seen.file) == self.hash


def write_file(
    root: ConfinedRoot,
    secrets: Secrets,
    path: str,
    content: str,
    expected_hash: str | None = None,
    create_parents: bool = True,
) -> AppliedEdit:
    _check_size(content)
    shown_path = shown("/".join(root.parts(path)))
    if root.status(path) is None:  # before its parent folders are created
        if expected_hash:
            raise _stale(shown_path, None)
        RedactedText("", secrets).restore(content)
    with root.slot(path, create_parents=create_parents) as slot:
        old = _read_old(slot, secrets)
        if expected_hash and (old is None or old.hash != expected_hash):
            raise _stale(shown_path, old)
        redacted = old.redacted if old else None
        if old and redacted and old.line_ends == "crlf" and "\r\n" not in content:
            content = content.replace("\n", "\r\n")
        raw = (redacted or RedactedText("", secrets)).restore(content)
        data, notes = _encoded(raw, old)
        return _put(slot, shown_path, old, data, content, notes)


def replace_lines_in_file(
    root: ConfinedRoot,
    secrets: Secrets,
    path: str,
    start: int,
    end: int,
    new_text: str,
    expected_old_text: str,
) -> AppliedEdit:
    """Replaces lines `start` to `end`, from 1; with `end` = `start` - 1 inserts before `start`."""

    def changed(shown_path: str, before: str) -> str:
        lines = lines_of(before)
        if start < 1 or end < start - 1 or end > len(lines):
            raise Refused(
                f"{shown_path} has {len(lines)} lines: {start} to {end} is out of range",
                hint=f"to append, use start={len(lines) + 1} and end={len(lines)}",
            )
        if not is_passage(lines[start - 1 : end], expected_old_text):
            passage = line_passage(shown_path, lines, start, end)
            raise Refused(passage, hint="use these as expected_old_text")
        return replace_lines(lines, start, end, new_text)

    return _change(root, secrets, path, changed)


def replace_text_in_file(
    root: ConfinedRoot, secrets: Secrets, path: str, old_text: str, new_text: str, count: int = 1
) -> AppliedEdit:
    """Replaces all `count` occurrences of `old_text`; refused if there are more or fewer."""

    def changed(shown_path: str, before: str) -> str:
        places = text_places(before, old_text)
        if len(places) == count:
            return replace_places(before, places, new_text)
        if places:
            numbers = line_numbers(before, places)
            raise Refused(
                f"{shown_path} has old_text {len(places)} times, not {count}: in lines {numbers}",
                hint=f"include more context in old_text, or use count={len(places)} to replace all",
            )
        raise Refused(
            f"{shown_path} does not contain old_text{nearest_passage(before, old_text)}",
            hint="old_text must match the file exactly, including whitespace",
        )

    if not old_text:
        raise Refused("old_text is empty", hint="use write_file to create files")
    return _change(root, secrets, path, changed)


def _change(
    root: ConfinedRoot, secrets: Secrets, path: str, changed: Callable[[str, str], str]
) -> AppliedEdit:
    shown_path = shown("/".join(root.parts(path)))
    if root.status(path) is None:
        raise Refused(f"{shown_path} does not exist", hint="use write_file to create files")
    with root.slot(path) as slot:
        old = _read_old(slot, secrets)
        if old is None:
            raise Refused(f"{shown_path} does not exist", hint="use write_file to create files")
        if old.redacted is None:
            raise Refused(
                f"{shown_path} is not text, damaged, or larger than {MOST_EDITED} bytes",
                hint="change it with a command",
            )
        content = changed(shown_path, old.redacted.text)
        _check_size(content)
        raw = old.redacted.restore(content)
        try:
            data = old.encoding.encode(raw)
        except UnicodeEncodeError as error:
            character = error.object[error.start]
            raise Refused(
                f"{shown_path} seems to be {old.encoding.name}, which cannot encode {character!r}",
                hint="remove it, or rewrite the whole file as UTF-8",
            ) from None
        return _put(slot, shown_path, old, data, content, [])


def _check_size(content: str) -> None:
    try:
        size = len(content.encode())
    except UnicodeEncodeError:
        raise Refused(
            "the content is not valid UTF-8 text", hint="remove lone surrogates"
        ) from None
    if size > MOST_WRITTEN:
        raise Refused(
            f"the content has {size} bytes; at most {MOST_WRITTEN} can be written at once",
            hint="write several files, or create it with a command",
        )


def _stale(shown_path: str, old: OldFile | None) -> Refused:
    now = "no longer exists" if old is None else f"has changed, its hash is now {old.hash}"
    return Refused(f"{shown_path} {now}", hint="read it again, then repeat the change")


def _encoded(raw: str, old: OldFile | None) -> tuple[bytes, list[str]]:
    """Encodes in the encoding of the replaced file, since the model did not see the bytes."""
    if old is None or old.redacted is None:
        return raw.encode(), []
    try:
        return old.encoding.encode(raw), []
    except UnicodeEncodeError:
        return raw.encode(), [f"the file was converted from {old.encoding.name} to UTF-8"]


def _put(
    slot: Slot, shown_path: str, old: OldFile | None, data: bytes, content: str, notes: list[str]
) -> AppliedEdit:
    """Writes the file. `content` is the model's text: the diff shows it without secrets."""
    written = slot.put(
        [data],
        old.seen if old else None,
        is_unchanged=old.is_unchanged if old else None,
    )
    hash = text_decoding.content_hash(data)
    changed = old is None or old.hash != hash
    diff: UnifiedDiff | None = None
    if old is None or old.redacted:
        before = old.redacted.text if old and old.redacted else None
        diff = difference(shown_path, before, content) if changed else UnifiedDiff()
    else:
        what = f"not text, damaged, or larger than {MOST_EDITED} bytes"
        notes.append(f"no diff: the old content is {what}")
    if diff and diff.left_out:
        notes.append(f"{diff.left_out} lines of the diff are not shown")
    return AppliedEdit(
        shown_path,
        written.created,
        changed,
        written.size,
        hash,
        diff.text if diff else "",
        diff.added if diff else None,
        diff.removed if diff else None,
        tuple(notes),
    )


def _read_old(slot: Slot, secrets: Secrets) -> OldFile | None:
    seen = slot.open_existing()
    if seen is None:
        return None
    found = text_decoding.survey(seen.file)
    if found.encoding is None or found.encoding.damaged or found.size > MOST_EDITED:
        return OldFile(seen, found.hash, None, text_decoding.UTF_8, found.line_ends)
    redacted = RedactedText("".join(text_decoding.pieces(seen.file, found.encoding)), secrets)
    return OldFile(seen, found.hash, redacted, found.encoding, found.line_ends)
