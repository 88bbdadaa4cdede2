"""Searches files of the workspace by content or by name.

A regular expression may never terminate, and Python cannot interrupt one: they run in a separate
process with limits on time and memory, which is killed on timeout.
"""

from __future__ import annotations

import os
import re
import select
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Literal, Self, get_args

from msgspec import Struct

from tillerman.supervision.secrets import Secrets
from tillerman.workspace.files import gitignore, regex_process
from tillerman.workspace.files.access.confined_root import ConfinedRoot
from tillerman.workspace.files.access.walk import DirectoryWalk, WalkEntry
from tillerman.workspace.files.content.redacted_text import RedactedText
from tillerman.workspace.files.file_names import shown
from tillerman.workspace.files.refusal import Refused

SearchKind = Literal["text", "name", "regex"]

MOST = 1_000
MOST_CONTEXT = 10
BIG = 4 << 20  # bytes of a file that is searched
SECONDS = 20.0
_LONGEST_LINE = 500
_MOST_TEXT = 64_000
_MOST_PATTERN = 1_000
_NO_LINE = re.compile("[\0\n\ud800-\udfff]")


class FileMatch(Struct, frozen=True):
    path: str
    line: int = 0  # 0: its name matches
    text: str = ""
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


class FileMatches(Struct, frozen=True):
    matches: tuple[FileMatch, ...]
    files: int  # number of searched files
    notes: tuple[str, ...] = ()  # what was not searched, and why


class _Slow(Exception):
    pass


def search_files(
    root: ConfinedRoot,
    pattern: str,
    path: str = ".",
    kind: SearchKind = "text",
    limit: int = 100,
    context: int = 0,
    *,
    seconds: float = SECONDS,
    secrets: Secrets | None = None,
) -> FileMatches:
    """Searches files. `secrets` are not matched: else searches could reveal them by letter."""
    _check(pattern, kind, limit, context)
    search = _Search(limit, context, time.monotonic() + seconds, secrets)
    walk = DirectoryWalk(root, path, seconds=seconds)
    stopped = ""
    try:
        if kind == "name":
            search.names(walk, _name_test(pattern, len(root.parts(path))))
        elif kind == "text":
            search.texts(walk, _Literal(pattern))
        else:
            with _Expression(pattern, limit) as expression:
                search.texts(walk, expression)
    except _Slow as slow:
        stopped = f"the search was stopped after {seconds:.0f} s at {slow}: use a simpler pattern"
    notes = [f"{count} left out: {why}" for why, count in (search.skipped + walk.left_out).items()]
    if search.full:
        notes.append(f"more than {len(search.matches)} matches: narrow the pattern or the path")
    if walk.late and not stopped:
        stopped = f"the search was stopped after {seconds:.0f} s: narrow the path"
    return FileMatches(
        tuple(search.matches), search.files, (*notes, *([stopped] if stopped else []))
    )


def _check(pattern: str, kind: str, limit: int, context: int) -> None:
    if kind not in get_args(SearchKind):
        raise Refused(f"unknown search kind {kind!r}", hint="use text, name or regex")
    if not pattern or len(pattern) > _MOST_PATTERN or _NO_LINE.search(pattern):
        raise Refused(
            f"a pattern must be one line of at most {_MOST_PATTERN} characters",
            hint="search for a part of it",
        )
    if not 1 <= limit <= MOST or not 0 <= context <= MOST_CONTEXT:
        raise Refused(
            f"limit {limit} or context {context} is out of range",
            hint=f"use limit 1 to {MOST}, context 0 to {MOST_CONTEXT}",
        )


def _name_test(pattern: str, depth: int) -> Callable[[tuple[str, ...]], bool]:
    """Returns a case-insensitive test of names.

    A pattern is a glob of the name, or with a `/` of the path, from the workspace or from the
    folder `depth` names below it, where the search starts. Without wildcards it is a part of the
    path.
    """
    wanted = pattern.casefold()
    if not re.search(r"[*?\[]", pattern):
        return lambda names: wanted in "/".join(names).casefold()
    if "/" not in pattern:
        glob = gitignore.glob(wanted)
        return lambda names: glob.fullmatch(names[-1].casefold()) is not None
    path_glob = gitignore.path_glob(wanted.removeprefix("./"))

    def matches(names: tuple[str, ...]) -> bool:
        folded = [name.casefold() for name in names]
        return path_glob(folded) or (depth > 0 and path_glob(folded[depth:]))

    return matches


class _Literal:
    """Finds lines with a text in a file's bytes: (number from 1, start, end), at most `most`."""

    def __init__(self, pattern: str) -> None:
        self._wanted = pattern.encode()

    def find(self, data: bytes, most: int, _: float) -> Iterator[tuple[int, int, int]]:
        number, counted, at = 1, 0, 0
        while most and (at := data.find(self._wanted, at)) >= 0:
            start = data.rfind(b"\n", 0, at) + 1
            end = data.find(b"\n", at)
            end = len(data) if end < 0 else end
            number += data.count(b"\n", counted, start)
            counted = start
            yield number, start, end
            at = end + 1
            most -= 1


class _Expression:
    """Like `_Literal`, for a regular expression, in a separate process."""

    def __init__(self, pattern: str, limit: int) -> None:
        self._command = [sys.executable, "-I", "-S", regex_process.__file__, pattern, str(limit)]
        self._output = b""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, env={}, cwd="/", start_new_session=True,
        )  # fmt: skip
        try:
            hello = self._line(time.monotonic() + 10.0)
        except _Slow:
            self.__exit__()
            raise Refused("the pattern takes too long to compile", hint="simplify it") from None
        if hello != "ready":
            self.__exit__()
            raise Refused(
                f"the pattern is not a valid regular expression: {hello or 'it is too large'}",
                hint="use Python's `re`, or kind=text for plain text",
            )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                try:
                    pipe.close()
                except BrokenPipeError:
                    continue
        self._process.wait()

    def find(self, data: bytes, most: int, until: float) -> Iterator[tuple[int, int, int]]:
        assert self._process.stdin
        try:
            self._process.stdin.write(b"%d\n" % len(data) + data)
            self._process.stdin.flush()
        except BrokenPipeError:
            raise _Slow from None
        while (line := self._line(until)) != "end":
            if not line:
                raise _Slow  # it reached its own limit
            number, start, end = map(int, line.split())
            if most > 0:
                yield number, start, end
            most -= 1

    def _line(self, until: float) -> str:
        assert self._process.stdout
        file = self._process.stdout.fileno()
        answers = select.poll()  # `select` supports no descriptor above 1,023
        answers.register(file, select.POLLIN)
        while b"\n" not in self._output:
            left = until - time.monotonic()
            if left <= 0 or not answers.poll(left * 1_000):
                raise _Slow
            more = os.read(file, 65_536)
            if not more:
                return ""
            self._output += more
        line, _, self._output = self._output.partition(b"\n")
        return line.decode("utf-8", "replace")


class _Search:
    def __init__(self, limit: int, context: int, until: float, secrets: Secrets | None) -> None:
        self._limit, self._context, self._until = limit, context, until
        self._secrets = secrets
        self._room = _MOST_TEXT
        self.matches: list[FileMatch] = []
        self.skipped: Counter[str] = Counter()
        self.files = 0
        self.full = False

    def names(self, walk: DirectoryWalk, test: Callable[[tuple[str, ...]], bool]) -> None:
        for found in walk:
            self.files += 1
            if test(found.names) and not self._add(FileMatch(shown(found.path))):
                return

    def texts(self, walk: DirectoryWalk, matcher: _Literal | _Expression) -> None:
        for found in walk:
            data = self._read(found)
            if data is None:
                continue
            self.files += 1
            most = self._limit - len(self.matches) + 1
            try:
                lines = list(matcher.find(data, most, self._until))
                if lines and self._secrets and self._secrets.finds(data):
                    data = _redacted(data, self._secrets)
                    lines = list(matcher.find(data, most, self._until))
            except _Slow:
                raise _Slow(shown(found.path)) from None
            for number, start, end in lines:
                if not self._add(self._match(found, data, number, start, end)):
                    return

    def _read(self, found: WalkEntry) -> bytes | None:
        if found.kind != "file" or (opened := found.open()) is None:
            return None
        try:
            if opened.status.st_size > BIG:
                self.skipped[f"larger than {BIG >> 20} MiB"] += 1
                return None
            data = os.read(opened.number, opened.status.st_size)
        except OSError:
            return None
        finally:
            os.close(opened.number)
        if not data:
            return None
        if data.find(b"\0", 0, 8_192) >= 0:
            self.skipped["binary"] += 1
            return None
        return data

    def _match(self, found: WalkEntry, data: bytes, number: int, start: int, end: int) -> FileMatch:
        return FileMatch(
            shown(found.path),
            number,
            _shown(data[start:end]),
            tuple(_before(data, start, self._context)),
            tuple(_after(data, end, self._context)),
        )

    def _add(self, match: FileMatch) -> bool:
        """Adds a match. Returns False when there is no more room."""
        self._room -= sum(map(len, (match.path, match.text, *match.before, *match.after)))
        if len(self.matches) == self._limit or self._room < 0:
            self.full = True
            return False
        self.matches.append(match)
        return True


def _redacted(data: bytes, secrets: Secrets) -> bytes:
    """Redacts as read_file does; bytes of any encoding are preserved."""
    text = data.decode("utf-8", "surrogateescape")
    return RedactedText(text, secrets).text.encode("utf-8", "surrogateescape")


def _before(data: bytes, start: int, count: int) -> list[str]:
    lines: list[str] = []
    while count and start > 0:
        end = start - 1
        start = data.rfind(b"\n", 0, end) + 1
        lines.insert(0, _shown(data[start:end]))
        count -= 1
    return lines


def _after(data: bytes, end: int, count: int) -> Iterator[str]:
    while count and end + 1 < len(data):
        start = end + 1
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        yield _shown(data[start:end])
        count -= 1


def _shown(line: bytes) -> str:
    text = line[: _LONGEST_LINE * 4].removesuffix(b"\r").decode("utf-8", "replace")
    return text if len(text) <= _LONGEST_LINE else f"{text[:_LONGEST_LINE]}…"
