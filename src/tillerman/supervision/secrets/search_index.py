"""Index of registered secrets: rejects clean text cheaply, else returns candidate forms.

Testing every form with `in` would need one pass per form. Instead the text is read as a sequence of
8-byte numbers, one of every `step`: each long core contains such a number, and the set of possible
numbers is limited. That is one pass, independent of the number of secrets.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from collections.abc import Iterable

from tillerman.supervision.secrets.secret_forms import (
    NAMED_CHARACTERS,
    SecretForm,
    has_numbered_entity,
    unescape,
    unescape_start,
)
from tillerman.supervision.secrets.unescaped_tail import HEAD, UnescapedTail

_WIDTH = 8
_MOST_STEPS = 4
_LONG = 2 * _WIDTH - 1  # a shorter core may contain no whole aligned number
# `5%` or a backslash before a secret appears to escape its first letters, and `%2` at its end the
# letter after it. This many bytes of a core may be lost by unescaping; the middle is not.
_LOST_BEFORE, _LOST_AFTER = 4, 3
_TAKEN_BEFORE, _TAKEN_AFTER = 3, 2  # the same for entities
_SAFE = _LONG + 2 * max(_LOST_BEFORE, _LOST_AFTER)  # the middle of a longer core is long enough
_ESCAPED = re.compile(rb"[\\%&\r\n]")
_ESCAPED_WITHOUT_NAMES = re.compile(rb"[\\%\r\n]|&(?:(?:amp;){0,2}#|[a-z;]{0,11}\Z)")
_ESCAPES = frozenset(b"\\%&")


class SecretIndex:
    def __init__(self, forms: Iterable[SecretForm] = ()) -> None:
        forms = list({(form.text, form.wraps): form for form in forms}.values())
        sized = [(form, len(form.core)) for form in forms]
        self._short = [form for form, size in sized if size < _LONG]
        self._unsafe = [form for form, size in sized if size < _SAFE]
        long = [(form, size) for form, size in sized if size >= _LONG]
        self._step = min(_MOST_STEPS, _steps(min((size for _, size in long), default=10**6)))
        self._blocks: dict[int, list[SecretForm]] = {}
        add, number, order = self._blocks.setdefault, int.from_bytes, sys.byteorder
        count = _WIDTH * self._step
        for form, size in long:
            core = form.core
            start = (size - count - _WIDTH + 1) // 2  # from the middle: keys often share a prefix
            for at in range(start, start + count):
                add(number(core[at : at + _WIDTH], order), []).append(form)
        self._numbers = frozenset(self._blocks)
        self._named = any(NAMED_CHARACTERS.intersection(form.core) for form in forms)
        self._cores = sorted({form.core for form in forms})
        self._heads = frozenset(tuple(core[:HEAD]) for core in self._cores)
        self._first = frozenset(head[0] for head in self._heads) | _ESCAPES
        self._longest_core = max(map(len, self._cores), default=0)
        self.longest = max((form.longest for form in forms), default=0)  # bytes, all escaped

    def candidates(self, text: bytes) -> list[SecretForm]:
        """Returns the forms that may match; every form in the text is among them."""
        if not self._cores:
            return []
        raw = text
        entities = b"&" in raw and (self._named or has_numbered_entity(raw))
        if b"%" in raw or b"\\" in raw or b"\n" in raw or entities:
            text = unescape(raw, named=self._named)
        found: list[SecretForm] = []
        if self._numbers:
            numbers = memoryview(text)[: len(text) // _WIDTH * _WIDTH].cast("Q")[:: self._step]
            if not self._numbers.isdisjoint(numbers):
                hits = self._numbers.intersection(numbers)
                found += [form for hit in hits for form in self._blocks[hit]]
        if b"%" in raw:
            middle = slice(_LOST_BEFORE, -_LOST_AFTER)
            found += [form for form in self._unsafe if form.core[middle] in text]
        elif b"\\" in raw and entities:  # `&#6` before `\x3b` appears to use it as its end
            middle = slice(_TAKEN_BEFORE, -_TAKEN_AFTER)
            found += [
                form for form in self._unsafe if form.core[middle] in text or form.core in raw
            ]
        elif b"\\" in raw or entities:
            found += [form for form in self._unsafe if form.core in text or form.core in raw]
        elif self._short:
            found += [form for form in self._short if form.core in text]
        return list(dict.fromkeys(found))

    def beginning(self, text: bytes, start: int) -> int:
        """Returns where a form may start that the end of the text cuts off; else its length."""
        if not self._cores:
            return len(text)
        size = len(text)
        tail = text[max(start, size - self.longest) :]
        if not (_ESCAPED if self._named else _ESCAPED_WITHOUT_NAMES).search(tail):
            return self._plain_beginning(text, max(start, size - self._longest_core))
        for at in UnescapedTail(tail, named=self._named).starts(self._heads, self._first):
            if self._begins_a_core(unescape_start(tail[at:], named=self._named)):
                return size - len(tail) + at
        return size

    def _plain_beginning(self, text: bytes, start: int) -> int:
        """Like `beginning`, for text without escapes, where a core has exactly its own length."""
        size = len(text)
        tail = text[start:]
        heads = self._heads
        if not heads.isdisjoint(zip(tail, tail[1:], tail[2:], strict=False)):
            rows = enumerate(zip(tail, tail[1:], tail[2:], strict=False), start)
            for at in [at for at, head in rows if head in heads]:
                if self._begins_a_core(text[at:]):
                    return at
        for at in range(max(start, size - HEAD + 1), size):
            if text[at] in self._first and self._begins_a_core(text[at:]):
                return at
        return size

    def _begins_a_core(self, text: bytes) -> bool:
        after = bisect_right(self._cores, text)
        return after < len(self._cores) and self._cores[after].startswith(text)


def _steps(size: int) -> int:
    """Returns the step between inspected numbers so that no core is missed.

    A core of at least `8 * step + 7` bytes contains an inspected number at any position.
    """
    return max(1, (size - (_SAFE - _LONG) - _WIDTH + 1) // _WIDTH)
