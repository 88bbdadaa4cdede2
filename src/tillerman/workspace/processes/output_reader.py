"""Reads and searches process output by lines, at a cost independent of the file size.

The file may grow meanwhile. Lines are shown without cursor movements; a long line is cut and marked
as such. A carriage return within a line is shown as `␍`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

from msgspec import Struct

from tillerman.core.terminal_sanitizer import clean
from tillerman.supervision.secrets import Secrets
from tillerman.workspace.files import regex_client
from tillerman.workspace.files.refusal import Refused
from tillerman.workspace.processes.output_file import LINE_BYTES, OutputFile, opened

MOST_LINES = 100
TEXT_BYTES = 50_000  # of all lines together
WINDOW = 256 << 10  # bytes read in one direction to find them
MOST_MATCHES = 50
MOST_CONTEXT = 10
LONGEST_PATTERN = 1_000
SEARCH_SECONDS = 2.0

_FIRST_BLOCK, _LAST_BLOCK = 4 << 10, 64 << 10
_CHUNK = 256 << 10
_RETURN = "␍"

Kind = Literal["text", "regex"]
Ended = Literal["end", "limit", "time", "slow"]


class OutputLine(Struct, frozen=True):
    offset: int  # in bytes, where the shown part starts
    text: str
    left_out: int = 0  # bytes of this line; the text says where


class OutputLines(Struct, frozen=True):
    lines: tuple[OutputLine, ...]
    start: int  # where the first line starts
    next: int  # offset of the next page
    size: int  # of the file, at that time
    middle: bool = False  # the first line starts before `start`
    unfinished: bool = False  # the last line has no newline yet

    @property
    def more(self) -> bool:
        """Returns whether more output follows."""
        return self.next < self.size


class OutputMatch(Struct, frozen=True):
    line: OutputLine
    before: tuple[OutputLine, ...] = ()
    after: tuple[OutputLine, ...] = ()


class OutputMatches(Struct, frozen=True):
    """Matches.

    `slow`: the line before `next` took too long for this expression, and was skipped.
    """

    matches: tuple[OutputMatch, ...]
    next: int
    size: int
    ended: Ended


class OutputEnds(Struct, frozen=True):
    head: str
    tail: str = ""
    left_out: int = 0  # bytes between them
    offset: int = 0  # where those start
    size: int = 0


def tail(path: Path, n: int = MOST_LINES, secrets: Secrets | None = None) -> OutputLines:
    with opened(path, secrets) as (file, size):
        return _backward(file, size, size, _count(n))


def head(path: Path, n: int = MOST_LINES, secrets: Secrets | None = None) -> OutputLines:
    return span(path, 0, n, secrets)


def span(
    path: Path, offset: int, n: int = MOST_LINES, secrets: Secrets | None = None
) -> OutputLines:
    """Returns the lines from a byte offset; `next` is the offset of the following page."""
    with opened(path, secrets) as (file, size):
        _check_offset(offset, size)
        return _forward(file, offset, size, _count(n))


def last_lines(path: Path, n: int) -> int:
    """Returns where the last `n` lines start, for any number and length."""
    with opened(path, None) as (file, size):
        at, left = size, n
        while at:
            step = min(_LAST_BLOCK, at)
            block = file.read(step, at - step)
            end = len(block) - (at == size and block.endswith(b"\n"))  # it ends the last line
            while left and (end := block.rfind(b"\n", 0, end)) >= 0:
                left -= 1
                if not left:
                    return at - step + end + 1
            at -= step
        return 0 if n else size


def ends(path: Path, head_cap: int, tail_cap: int, secrets: Secrets | None = None) -> OutputEnds:
    """Returns all output, or both ends within the caps, cut at a nearby line end."""
    with opened(path, secrets) as (file, size):
        if size <= head_cap + tail_cap:
            return OutputEnds(_shown(os.pread(file.number, size, 0)), size=size)
        first = _whole_lines_at_the_end(file.read(head_cap, 0))
        last = _whole_lines_at_the_start(file.read(tail_cap, size - tail_cap))
        left_out = size - len(first) - len(last)
        return OutputEnds(_shown(first), _shown(last), left_out, len(first), size)


def search(
    path: Path,
    pattern: str,
    kind: Kind = "text",
    limit: int = 20,
    context: int = 0,
    from_offset: int = 0,
    *,
    seconds: float = SEARCH_SECONDS,
    secrets: Secrets | None = None,
) -> OutputMatches:
    """Searches lines as they are shown, by text or regex; `next` is where to continue."""
    if not pattern or len(pattern) > LONGEST_PATTERN or "\0" in pattern or "\n" in pattern:
        raise Refused(
            f"a pattern must be one line of 1 to {LONGEST_PATTERN} characters",
            hint="search for a shorter part of the line",
        )
    limit = max(1, min(limit, MOST_MATCHES))
    context = max(0, min(context, MOST_CONTEXT))
    with opened(path, secrets) as (file, size):
        _check_offset(from_offset, size)
        find = _find_regex if kind == "regex" else _find_text
        found = find(file, size, pattern, from_offset, limit, seconds)
        matches: list[OutputMatch] = []
        room = TEXT_BYTES
        for line, position in found.places:
            match = _match(file, size, line, position, context)
            room -= sum(len(one.text) for one in (match.line, *match.before, *match.after))
            if room < 0 and matches:
                return OutputMatches(tuple(matches), line, size, "limit")
            matches.append(match)
    return OutputMatches(tuple(matches), found.next, max(size, found.next), found.ended)


# -- lines -----------------------------------------------------------------------------------------


def _forward(file: OutputFile, offset: int, size: int, n: int) -> OutputLines:
    before = min(offset, 1)  # shows whether a line starts here
    data, block = b"", _FIRST_BLOCK
    while len(data) - before < WINDOW and data.count(b"\n", before) < n:
        at = offset - before + len(data)
        piece = file.read(min(block, size - at), at) if at < size else b""
        if not piece:
            break
        data += piece
        block = min(block * 2, _LAST_BLOCK)
    middle = bool(before) and not data.startswith(b"\n")
    data = data[before:]
    lines: list[OutputLine] = []
    at, room = offset, TEXT_BYTES
    for raw in _split(data):
        if len(lines) == n:
            break
        line = _line(at, raw)
        room -= len(line.text)
        if room < 0 and lines:
            break
        lines.append(line)
        at += len(raw)
    last = data[: at - offset][-1:]
    return OutputLines(tuple(lines), offset, at, size, middle, bool(last) and last != b"\n")


def _backward(file: OutputFile, end: int, size: int, n: int) -> OutputLines:
    """Returns the last `n` lines before an offset."""
    data, at, block = b"", end, _FIRST_BLOCK
    while at and len(data) < WINDOW and data.count(b"\n", 0, -1) < n:
        step = min(block, at, WINDOW - len(data))
        piece = file.read(step, at - step)
        if len(piece) < step:
            break  # the file was truncated
        data = piece + data
        at -= step
        block = min(block * 2, _LAST_BLOCK)
    raws = _split(data)
    middle = at > 0
    if len(raws) > n:
        raws, middle = raws[-n:], False
    lines: list[OutputLine] = []
    start, room = end, TEXT_BYTES
    for raw in reversed(raws):
        line = _line(start - len(raw), raw)
        room -= len(line.text)
        if room < 0 and lines:
            middle = False
            break
        lines.append(line)
        start -= len(raw)
    lines.reverse()
    return OutputLines(tuple(lines), start, end, size, middle, data[-1:] not in (b"", b"\n"))


def _split(data: bytes) -> list[bytes]:
    """Splits only at newlines, which stay."""
    lines = [line + b"\n" for line in data.split(b"\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _line(offset: int, raw: bytes) -> OutputLine:
    raw = raw.removesuffix(b"\n").removesuffix(b"\r")
    if len(raw) <= LINE_BYTES:
        return OutputLine(offset, _flat(raw))
    first = _whole_characters_at_the_end(raw[: LINE_BYTES * 3 // 4])
    last = _whole_characters_at_the_start(raw[-LINE_BYTES // 4 :])
    left_out = len(raw) - len(first) - len(last)
    between = f" … [{left_out:,} bytes left out, from byte {offset + len(first)} on] … "
    return OutputLine(offset, _flat(first) + between + _flat(last), left_out)


def _flat(raw: bytes) -> str:
    return _shown(raw).replace("\n", _RETURN)


def _shown(raw: bytes) -> str:
    return clean(raw.decode("utf-8", "replace"))


def _whole_characters_at_the_end(raw: bytes) -> bytes:
    """Removes a truncated character at the end."""
    for back in range(1, min(4, len(raw)) + 1):
        byte = raw[-back]
        if byte & 0xC0 != 0x80:
            needs = 1 + (byte >= 0xC0) + (byte >= 0xE0) + (byte >= 0xF0)
            return raw[:-back] if needs > back else raw
    return raw


def _whole_characters_at_the_start(raw: bytes) -> bytes:
    skip = 0
    while skip < min(3, len(raw)) and raw[skip] & 0xC0 == 0x80:
        skip += 1
    return raw[skip:]


def _whole_lines_at_the_end(raw: bytes) -> bytes:
    last = raw.rfind(b"\n", len(raw) // 2)
    return raw[: last + 1] if last >= 0 else _whole_characters_at_the_end(raw)


def _whole_lines_at_the_start(raw: bytes) -> bytes:
    first = raw.find(b"\n", 0, len(raw) // 2)
    return raw[first + 1 :] if first >= 0 else _whole_characters_at_the_start(raw)


# -- searching -------------------------------------------------------------------------------------


class _Places(NamedTuple):
    places: list[tuple[int, int]]  # offset of a line, and of the match in it
    next: int
    ended: Ended


def _match(file: OutputFile, size: int, line: int, position: int, context: int) -> OutputMatch:
    begin = line
    if position > LINE_BYTES // 2:  # else the match is in the part that is cut
        begin += position - LINE_BYTES // 4
    found = _forward(file, begin, size, 1 + context).lines
    before = _backward(file, line, size, context).lines if context else ()
    return OutputMatch(found[0] if found else OutputLine(begin, ""), before, found[1:])


def _find_text(
    file: OutputFile, size: int, pattern: str, start: int, limit: int, seconds: float
) -> _Places:
    needle, until = pattern.encode("utf-8", "replace"), time.monotonic() + seconds
    places: list[tuple[int, int]] = []
    at = start
    while at < size:
        if time.monotonic() > until:
            return _Places(places, at, "time")
        chunk = file.read(min(_CHUNK, size - at), at, mask=True)
        if not chunk:
            break
        step = len(chunk)
        if at + step < size:
            if last := chunk.rfind(b"\n") + 1:
                chunk, step = chunk[:last], last
            else:  # a part of a long line; the next part overlaps, for a match across
                step -= len(needle) - 1
        for begin, position in _places_in(chunk, needle, pattern):
            places.append((at + begin, position))
            if len(places) == limit:
                end = chunk.find(b"\n", begin)
                return _Places(places, at + (end + 1 if end >= 0 else step), "limit")
        at += step
    return _Places(places, at, "end")


def _places_in(chunk: bytes, needle: bytes, pattern: str) -> Iterator[tuple[int, int]]:
    """Yields for each matching line its offset, and the position of the match in it."""
    if b"\x1b" not in chunk:  # no colour codes between letters
        at = chunk.find(needle)
        while at >= 0:
            begin = chunk.rfind(b"\n", 0, at) + 1
            yield begin, at - begin
            end = chunk.find(b"\n", at)
            at = chunk.find(needle, end) if end >= 0 else -1
        return
    begin = 0
    for raw in _split(chunk):
        at = _flat(raw).find(pattern)
        if at >= 0:
            yield begin, at
        begin += len(raw)


def _find_regex(
    file: OutputFile, size: int, pattern: str, start: int, limit: int, seconds: float
) -> _Places:
    words = [sys.executable, "-I", "-S", regex_client.__file__, str(Path(__file__).parents[3])]
    try:
        with _masked(file, start, size, seconds / 2) as (number, end):
            done = subprocess.run(
                [*words, pattern, str(start), str(limit), str(seconds)],
                stdin=number,
                capture_output=True,
                env={"LC_ALL": "C.UTF-8"},
                timeout=seconds + 10,
                check=False,
            )
    except subprocess.TimeoutExpired:
        raise Refused("the search took too long", hint='try kind="text"') from None
    except (OSError, ValueError) as error:
        raise Refused(f"the search could not be started: {error}", hint='try kind="text"') from None
    places: list[tuple[int, int]] = []
    for told in done.stdout.decode("utf-8", "replace").splitlines():
        match told.split(" ", 2):
            case ["next", following, why]:
                assert why in ("end", "limit", "time", "slow")
                if why == "end" and end < size:
                    why = "time"
                return _Places(places, int(following), why)  # type: ignore[arg-type]
            case ["bad", *why]:
                raise Refused(
                    f"{pattern!r} is not a regular expression: {' '.join(why).strip(chr(39))}",
                    hint='use kind="text" to search for literal text',
                )
            case [line, position]:
                places.append((int(line), int(position)))
    raise Refused("this expression needs too much memory or time", hint='try kind="text"')


@contextmanager
def _masked(file: OutputFile, start: int, size: int, seconds: float) -> Iterator[tuple[int, int]]:
    """Yields a copy of the file with secrets masked at the same offsets, and where it ends.

    It ends early on timeout.
    """
    until = time.monotonic() + seconds
    with tempfile.TemporaryFile() as copy:
        at = start
        while at < size and time.monotonic() < until:
            chunk = file.read(min(_CHUNK, size - at), at, mask=True)
            if not chunk:
                break
            os.pwrite(copy.fileno(), chunk, at)
            at += len(chunk)
        yield copy.fileno(), at


# -- the file --------------------------------------------------------------------------------------


def _check_offset(offset: int, size: int) -> None:
    if not 0 <= offset <= size:
        raise Refused(
            f"byte {offset} is beyond this output, which has {size} bytes",
            hint="continue from the `next` of an earlier result, or start at 0",
        )


def _count(n: int) -> int:
    if n < 1:
        raise Refused("the number of lines is too small", hint=f"ask for 1 to {MOST_LINES}")
    return min(n, MOST_LINES)
