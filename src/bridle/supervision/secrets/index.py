"""Where registered secrets may be in a text: a cheap no for clean text, candidates otherwise.

Testing every form with `in` would cost as many passes as there are forms. Instead the text is read
as a row of 8-byte numbers, one of every `step`: wherever a long core stands, one such number lies
inside it, and only so many are possible. One pass, however many secrets there are.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from collections.abc import Iterable

from bridle.supervision.secrets.forms import Form, unescape, unescape_start

_WIDTH = 8
_MOST_STEPS = 4
_LONG = 2 * _WIDTH - 1  # a shorter core may hold no whole aligned number
# `5%` or a backslash before a secret seems to escape its first letters, and `%2` at its end the
# letter after it. So much of a core may be lost when a text is unescaped; the middle is not.
_LOST_BEFORE, _LOST_AFTER = 4, 3
_SAFE = _LONG + 2 * max(_LOST_BEFORE, _LOST_AFTER)  # the middle of a longer one is long enough
_HEAD = 3
_HEAD_RAW = 64  # bytes that hold the head of a core, however it is escaped
_ESCAPED = re.compile(rb"[\\%\r\n]")


class Index:
    def __init__(self, forms: Iterable[Form] = ()) -> None:
        forms = list({(form.text, form.wraps): form for form in forms}.values())
        long = [form for form in forms if len(form.core) >= _LONG]
        self._short = [form for form in forms if len(form.core) < _LONG]
        self._unsafe = [form for form in forms if len(form.core) < _SAFE]
        self._step = min([_MOST_STEPS, *(_steps(form.core) for form in long)])
        self._blocks: dict[int, list[Form]] = {}
        for form in long:
            for block in self._blocks_of(form.core):
                self._blocks.setdefault(block, []).append(form)
        self._numbers = frozenset(self._blocks)
        self._cores = sorted({form.core for form in forms})
        self._heads = {core[:_HEAD] for core in self._cores}
        self.longest = max((form.longest for form in forms), default=0)  # bytes, all escaped
        first = b"".join(re.escape(core) for core in {core[:1] for core in self._cores})
        self._starts = re.compile(rb"[\\%" + first + b"]")

    def candidates(self, text: bytes) -> list[Form]:
        """The forms whose pattern is worth a try; every form that the text holds is among them."""
        if not self._cores:
            return []
        raw = text
        if b"%" in raw or b"\\" in raw or b"\n" in raw:
            text = unescape(raw)
        found: list[Form] = []
        if self._numbers:
            numbers = memoryview(text)[: len(text) // _WIDTH * _WIDTH].cast("Q")[:: self._step]
            if not self._numbers.isdisjoint(numbers):
                hits = self._numbers.intersection(numbers)
                found += [form for hit in hits for form in self._blocks[hit]]
        if b"%" in raw:
            middle = slice(_LOST_BEFORE, -_LOST_AFTER)
            found += [form for form in self._unsafe if form.core[middle] in text]
        elif b"\\" in raw:
            found += [form for form in self._unsafe if form.core in text or form.core in raw]
        elif self._short:
            found += [form for form in self._short if form.core in text]
        return list(dict.fromkeys(found))

    def beginning(self, text: bytes, start: int) -> int:
        """Where a form may begin that the end of the text cuts; the text's length if nowhere."""
        if not self._cores:
            return len(text)
        for place in self._starts.finditer(text, max(start, len(text) - self.longest)):
            at = place.start()
            head = text[at : at + _HEAD]
            if _ESCAPED.search(head):
                head = unescape_start(text[at : at + _HEAD_RAW])[:_HEAD]
            if len(head) == _HEAD and head not in self._heads:
                continue
            if self._begins_a_core(unescape_start(text[at:])):
                return at
        return len(text)

    def _begins_a_core(self, text: bytes) -> bool:
        after = bisect_right(self._cores, text)
        return after < len(self._cores) and self._cores[after].startswith(text)

    def _blocks_of(self, core: bytes) -> list[int]:
        """From the middle: keys often begin alike."""
        count = _WIDTH * self._step
        start = (len(core) - count - _WIDTH + 1) // 2
        return [
            int.from_bytes(core[at : at + _WIDTH], sys.byteorder)
            for at in range(start, start + count)
        ]


def _steps(core: bytes) -> int:
    """How many numbers may be left out between two that are looked at, if this one is not to slip.

    A core of `8 * step + 7` bytes holds a number that is looked at, wherever it stands.
    """
    return max(1, (len(core) - (_SAFE - _LONG) - _WIDTH + 1) // _WIDTH)
