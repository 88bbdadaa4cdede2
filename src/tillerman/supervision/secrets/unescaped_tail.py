"""Unescapes the end of a text in one pass and maps each byte to its original position.

One pass does not decode nested escapes. The result therefore contains every position where a secret
may start, and some false ones: the caller must verify each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from functools import lru_cache

from tillerman.supervision.secrets.secret_forms import unescape, unescape_start, unfinished_escape

HEAD = 3  # bytes that identify the start of a core
_HEAD_RAW = 64  # bytes that contain the head of a core, however it is escaped
_OTHERS = (
    rb"|\\+(?:u[dD][89abAB][0-9a-fA-F]{2}\\+u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}"
    rb"|x[0-9a-fA-F]{2}|[0-3][0-7]{2}|[nrt])?"
    rb"|%(?:25)*[0-9a-fA-F]{2}|[\r\n]"
)
_NUMBER = rb"#[0-9]{1,12}|#[xX][0-9a-fA-F]{1,11}"
_ESCAPE = re.compile(rb"&(?:amp;){0,2}(?:" + _NUMBER + rb"|amp|lt|gt|quot|apos);" + _OTHERS)
_ESCAPE_WITHOUT_NAMES = re.compile(rb"&(?:amp;){0,2}(?:" + _NUMBER + rb");" + _OTHERS)
# escapes nested in others that one pass may leave
_INNER_PERCENT = rb"[\\]|%(?=(?:25)*(?:[0-9a-fA-F]{2}|[0-9a-fA-F]?\Z))"
_INNER = re.compile(
    _INNER_PERCENT + rb"|&(?=(?:amp;){0,2}(?:#|amp;|lt;|gt;|quot;|apos;)|[a-z0-9#;]{0,14}\Z)"
)
_INNER_WITHOUT_NAMES = re.compile(_INNER_PERCENT + rb"|&(?=(?:amp;){0,2}#|[a-z0-9#;]{0,14}\Z)")
_unescape_one = lru_cache(maxsize=4096)(unescape)


class UnescapedTail:
    def __init__(self, raw: bytes, *, named: bool) -> None:
        self._raw = raw
        self._named = named
        pattern = _ESCAPE if named else _ESCAPE_WITHOUT_NAMES
        self._end = unfinished_escape(raw)  # start of a trailing incomplete escape
        self._escapes = [escape.span() for escape in pattern.finditer(raw, 0, self._end)]
        parts: list[bytes] = []
        self._origins: list[int] = []  # position in the raw text of each plain byte
        self._backslashes: dict[int, int] = {}  # end of a backslash run -> its start
        at = 0
        for start, end in self._escapes:
            one = _unescape_one(raw[start:end], named=named)
            if raw[start:end].endswith(b"\\"):
                self._backslashes[end] = start
            parts += (raw[at:start], one)
            self._origins += range(at, start)
            self._origins += [start] * len(one)
            at = end
        self._plain = b"".join([*parts, raw[at : self._end]])
        self._origins += range(at, self._end)

    def starts(self, heads: Set[tuple[int, ...]], first: Set[int]) -> list[int]:
        """Returns where a core may start, by its head; `first`: the first bytes of spellings."""
        found = {self._origins[at] for at in _heads_in(self._plain, heads)}
        found.update(_heads_in(self._raw, heads))
        found.update(at for at in self._unclear() if self._may_begin(at, heads, first))
        found.update(self._backslashes[at] for at in found & self._backslashes.keys())
        return sorted(found)

    def _may_begin(self, at: int, heads: Set[tuple[int, ...]], first: Set[int]) -> bool:
        if self._raw[at] not in first:
            return False
        head = tuple(unescape_start(self._raw[at : at + _HEAD_RAW], named=self._named)[:HEAD])
        return len(head) < HEAD or head in heads

    def _unclear(self) -> Iterator[int]:
        """Yields positions where neither text shows the head literally."""
        size = len(self._plain)
        yield from range(self._end, len(self._raw))
        pattern = _INNER if self._named else _INNER_WITHOUT_NAMES
        for inner in pattern.finditer(self._plain):
            yield from self._origins[max(0, inner.start() - HEAD + 1) : inner.end()]
        yield from self._origins[max(0, size - HEAD + 1) :]
        following = [start for start, _ in self._escapes[1:]] + [self._end]
        for (start, end), behind in zip(self._escapes, following, strict=False):
            yield from range(max(start, behind - HEAD) + 1, end)


def _heads_in(text: bytes, heads: Set[tuple[int, ...]]) -> list[int]:
    rows = zip(text, text[1:], text[2:], strict=False)
    if heads.isdisjoint(rows):
        return []
    rows = zip(text, text[1:], text[2:], strict=False)
    return [at for at, head in enumerate(rows) if head in heads]
