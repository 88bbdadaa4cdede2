"""Passages of a text: by line numbers, and the most similar ones to a searched text."""

from __future__ import annotations

import re
import time
from difflib import SequenceMatcher

from tillerman.workspace.files.content import text_decoding as text
from tillerman.workspace.files.content.text_decoding import lines_of

_MOST_LINES = 200
_MOST_TEXT = 16_000
_MOST_NEAREST = 40  # lines
_MOST_NUMBERS = 20
_SECONDS = 1.0  # time limit of the search for similar lines
_ALIKE = 0.5


def plain(passage: str) -> str:
    """Normalizes line ends and strips the last one."""
    return passage.replace("\r\n", "\n").removesuffix("\n")


def is_passage(lines: list[str], expected: str) -> bool:
    """Returns whether the lines hold this text, with or without the last line end."""
    there, text = plain("".join(lines)), expected.replace("\r\n", "\n")
    return there in (text, text.removesuffix("\n"))


def replace_lines(lines: list[str], start: int, end: int, new_text: str) -> str:
    """Replaces lines; preserves the file's line ends and a missing newline at its end."""
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


def text_places(before: str, wanted: str) -> list[tuple[int, int]]:
    """Returns start and end of each occurrence; a line feed also matches CRLF."""
    if "\r\n" not in before:
        pattern = re.escape(wanted)
    else:
        lines = wanted.replace("\r\n", "\n").split("\n")
        pattern = "\r?\n".join(map(re.escape, lines))
    return [match.span() for match in re.finditer(pattern, before)]


def replace_places(before: str, places: list[tuple[int, int]], new_text: str) -> str:
    """Replaces each occurrence, with the line ends that are used there."""
    crlf = new_text.replace("\r\n", "\n").replace("\n", "\r\n")
    last_end = before.rfind("\n")
    pieces, at = [], 0
    for start, end in places:
        line_end = before.find("\n", start) if start <= last_end else last_end
        is_crlf = line_end > 0 and before[line_end - 1] == "\r"
        pieces += [before[at:start], crlf if is_crlf else new_text]
        at = end
    return "".join([*pieces, before[at:]])


def line_numbers(before: str, places: list[tuple[int, int]]) -> str:
    numbers = [str(before.count("\n", 0, start) + 1) for start, _ in places[:_MOST_NUMBERS]]
    return ", ".join(numbers) + (", …" if len(places) > _MOST_NUMBERS else "")


def line_passage(path: str, lines: list[str], start: int, end: int) -> str:
    """Describes the actual text of lines that differ from the expected text."""
    if end < start:
        return f"{path}: expected_old_text must be empty to insert before line {start}"
    passage = _numbered(lines[start - 1 : end][:_MOST_LINES], start)
    cut = "" if end - start < _MOST_LINES else f"\n… and {end - start + 1 - _MOST_LINES} more"
    return f"{path} has different text in lines {start} to {end}:\n{passage}{cut}"


def nearest_passage(before: str, wanted: str) -> str:
    """Describes the lines most similar to a text that was not found, with their numbers."""
    lines, looked_for = lines_of(before), lines_of(plain(wanted))
    if not lines or not looked_for:
        return ""
    count = len(looked_for)
    target = [line.strip() for line in looked_for]
    found = [line.strip() for line in lines]
    best, at = _ALIKE, -1
    until = time.monotonic() + _SECONDS
    first = SequenceMatcher(b=target[0], autojunk=False)
    for start in range(len(found) - min(count, len(found)) + 1):
        if time.monotonic() > until:
            break
        first.set_seq1(found[start][: text.LONGEST_LINE])
        if first.real_quick_ratio() < best / 2 or first.quick_ratio() < best / 2:
            continue
        alike = _likeness(found[start : start + count], target)
        if alike > best:
            best, at = alike, start
    if at < 0:
        return ""
    shown = lines[at : at + min(count, _MOST_NEAREST)]
    return (
        f"; the most similar lines are {at + 1} to {at + len(shown)}:\n{_numbered(shown, at + 1)}"
    )


def _likeness(found: list[str], target: list[str]) -> float:
    """Returns the similarity of two passages by line: 1 if equal except for whitespace around."""
    room = text.LONGEST_LINE
    pairs = list(zip(found, target, strict=False))[:_MOST_NEAREST]
    alike = sum(
        1.0 if a == b else SequenceMatcher(None, a[:room], b[:room], autojunk=False).ratio()
        for a, b in pairs
    )
    return alike / max(len(pairs), 1)


def _numbered(lines: list[str], first: int) -> str:
    rows = (f"{n}: {line.rstrip()[: text.LONGEST_LINE]}" for n, line in enumerate(lines, first))
    return "\n".join(rows)[:_MOST_TEXT]
