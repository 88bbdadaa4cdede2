"""Detects a file's encoding and line ends, and reads a window of lines from any size."""

from __future__ import annotations

import codecs
import hashlib
import os
import re
import time
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from tillerman.workspace.files.refusal import Refused

LONGEST_LINE = 2_000  # characters; the rest of a line is cut off
MOST_TEXT = 64_000  # characters of one window
SURVEYED = 64 << 20  # bytes; of larger files only the beginning is inspected
_CHUNK = 1 << 18
_SECONDS = 10.0

_HALF_A_PLACEHOLDER = re.compile(r"\[secret:[^\]]*\Z")

LineEnds = Literal["lf", "crlf", "mixed", "none"]

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


_WIDE = ("utf-16", "utf-32")  # encodings with NUL bytes in a text


class Encoding(NamedTuple):
    name: str
    mark: bytes = b""  # the byte order mark
    guessed: bool = False
    damaged: bool = False  # some bytes are invalid: encoding the text would change them

    def encode(self, text: str) -> bytes:
        return self.mark + text.encode(self._codec)

    @property
    def _codec(self) -> str:
        return "utf-8" if self.name == "utf-8-sig" else self.name

    def decoder(self, errors: str = "replace") -> codecs.IncrementalDecoder:
        """Returns a decoder for the bytes after the mark."""
        return codecs.getincrementaldecoder(self._codec)(errors)


UTF_8 = Encoding("utf-8")
LATIN_1 = Encoding("latin-1", guessed=True)


class Survey(NamedTuple):
    size: int
    encoding: Encoding | None  # None: not a text
    line_ends: LineEnds
    lines: int | None  # None: too large to be counted
    hash: str  # "" if too large


class Window(NamedTuple):
    lines: list[str]
    cut: int  # number of truncated lines
    more: bool


def lines_of(text: str) -> list[str]:
    """Splits into lines with their ends; only a line feed ends a line."""
    lines = [f"{line}\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def content_hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def file_hash(file: int) -> str:
    digest = hashlib.sha256()
    for data in chunks(file):
        digest.update(data)
    return digest.hexdigest()


def chunks(file: int, start: int = 0, end: int | None = None) -> Iterator[bytes]:
    """Yields chunks by pread, which does not move the shared file position."""
    while end is None or start < end:
        room = _CHUNK if end is None else min(_CHUNK, end - start)
        data = os.pread(file, room, start)
        if not data:
            return
        start += len(data)
        yield data


def survey(file: int) -> Survey:
    try:
        return _survey(file, "strict")
    except UnicodeDecodeError:  # a byte order mark, but bytes that are invalid in its encoding
        found = _survey(file, "replace")
        return found._replace(encoding=found.encoding and found.encoding._replace(damaged=True))


def _survey(file: int, errors: str) -> Survey:
    size = os.fstat(file).st_size
    whole = size <= SURVEYED
    digest, seen = hashlib.sha256(), 0
    encoding: Encoding | None = None
    decoder = UTF_8.decoder("strict")
    feeds = returns = 0
    last = ""
    for chunk in chunks(file, end=SURVEYED if whole else _CHUNK):
        data = chunk
        digest.update(data)
        if not seen:
            encoding = _marked(data)
            data = data[len(encoding.mark) :]
            decoder = encoding.decoder(errors if encoding.mark else "strict")
            seen += len(encoding.mark)
        seen += len(data)
        if encoding is None or (not encoding.name.startswith(_WIDE) and b"\0" in data):
            encoding = None
            continue  # only the hash is still needed
        try:
            text = decoder.decode(data)
        except UnicodeDecodeError:
            if encoding.mark:
                raise
            encoding, decoder = LATIN_1, LATIN_1.decoder()
            text = data.decode("latin-1")
        feeds += text.count("\n")
        returns += (last + text).count("\r\n")
        last = "\r" if text.endswith("\r") else ""
        final = text[-1:] or "\n"
    if encoding and whole:
        try:
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            if encoding.mark:
                raise
            encoding = LATIN_1
    lines = feeds + (final != "\n") if seen and encoding else 0
    return Survey(
        size,
        encoding if seen else UTF_8,
        _line_ends(feeds, returns),
        lines if whole else None,
        digest.hexdigest() if whole else "",
    )


def _marked(data: bytes) -> Encoding:
    return next((Encoding(name, mark) for mark, name in _MARKS if data.startswith(mark)), UTF_8)


def _line_ends(feeds: int, returns: int) -> LineEnds:
    if not feeds:
        return "none"
    return "lf" if not returns else "crlf" if returns == feeds else "mixed"


def pieces(file: int, encoding: Encoding) -> Iterator[str]:
    """Yields the text of a file of any size."""
    decoder = encoding.decoder()
    for data in chunks(file, len(encoding.mark)):
        yield decoder.decode(data)
    yield decoder.decode(b"", final=True)


def window(pieces: Iterable[str], first: int, limit: int, room: int = MOST_TEXT) -> Window:
    """Returns `limit` lines from `first` (from 1), without ends; `room` is in characters."""
    until = time.monotonic() + _SECONDS
    found = _Lines(limit, room)
    skipped = first - 1
    for piece in pieces:
        text = piece
        if skipped:
            there = text.count("\n")
            if there < skipped:
                skipped -= there
                if time.monotonic() > until:
                    raise Refused(
                        f"line {first} was not reached within {_SECONDS:.0f} s",
                        hint="search the file, or read it with a command such as `tail -c`",
                    )
                continue
            at = 0
            for _ in range(skipped):
                at = text.index("\n", at) + 1
            text, skipped = text[at:], 0
        if not found.add(text):
            return Window(found.lines, found.cut, more=True)
    if not skipped:
        found.end()
    return Window(found.lines, found.cut, more=False)


class _Lines:
    """Collects lines, truncating long ones, until there are enough."""

    def __init__(self, limit: int, room: int) -> None:
        self.lines: list[str] = []
        self.cut = 0
        self._limit, self._room = limit, room
        self._open = ""
        self._length = 0  # of the open line, including what was cut off

    def add(self, text: str) -> bool:
        """Adds text. Returns whether more is needed."""
        pieces = text.split("\n")
        for piece in pieces[:-1]:
            if not self._wanted():
                return False
            self._add(piece)
            self._finish()
        if not self._wanted():
            return not pieces[-1]  # at the end of the file there is nothing more
        self._add(pieces[-1])
        return True

    def end(self) -> None:
        if self._length:
            self._finish()

    def _wanted(self) -> bool:
        return len(self.lines) < self._limit and self._room > 0

    def _add(self, piece: str) -> None:
        self._open += piece[: LONGEST_LINE + 1 - len(self._open)]
        self._length += len(piece)

    def _finish(self) -> None:
        line = self._open
        if self._length <= LONGEST_LINE + 1:
            line = line.removesuffix("\r")
        if len(line) > LONGEST_LINE:
            line = _HALF_A_PLACEHOLDER.sub("", line[:LONGEST_LINE])
            self.cut += 1
        self.lines.append(line)
        self._room -= len(line) + 1
        self._open, self._length = "", 0
