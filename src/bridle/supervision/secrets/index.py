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
_HEAD = 3
_ESCAPED = re.compile(rb"[\\%\r\n]")


class Index:
    def __init__(self, forms: Iterable[Form] = ()) -> None:
        forms = list({(form.text, form.wraps): form for form in forms}.values())
        long = [form for form in forms if len(form.core) >= _LONG]
        self._short = [form for form in forms if len(form.core) < _LONG]
        shortest = min((len(form.core) for form in long), default=0)
        self._step = min(_MOST_STEPS, max(1, (shortest - _WIDTH + 1) // _WIDTH))
        self._blocks: dict[int, list[Form]] = {}
        for form in long:
            for block in self._blocks_of(form.core):
                self._blocks.setdefault(block, []).append(form)
        self._cores = sorted({form.core for form in forms})
        self._heads = {core[:_HEAD] for core in self._cores}
        self._longest = max((form.longest for form in forms), default=0)
        first = b"".join(re.escape(core[:1]) for core in {core[:1] for core in self._cores})
        self._starts = re.compile(rb"[\\%" + first + b"]")

    def candidates(self, text: bytes) -> list[Form]:
        """The forms whose pattern is worth a try; every form that the text holds is among them."""
        if not self._cores:
            return []
        texts = [text]
        if b"%" in text:  # `5%` before a secret would seem to escape its first letters: try both
            texts.append(unescape(text))
        elif b"\\" in text or b"\n" in text:
            texts[0] = unescape(text)
        found: dict[int, Form] = {}
        for plain in texts:
            numbers = memoryview(plain)[: len(plain) // _WIDTH * _WIDTH].cast("Q")[:: self._step]
            if not self._blocks.keys().isdisjoint(numbers):
                hits = self._blocks.keys() & set(numbers)
                found |= {id(form): form for block in hits for form in self._blocks[block]}
            for form in self._short:
                if form.core in plain:
                    found[id(form)] = form
        return list(found.values())

    def beginning(self, text: bytes, start: int) -> int:
        """Where a form may begin that the end of the text cuts; the text's length if nowhere."""
        if not self._cores:
            return len(text)
        for place in self._starts.finditer(text, max(start, len(text) - self._longest)):
            at = place.start()
            head = text[at : at + _HEAD]
            if len(head) == _HEAD and head not in self._heads and not _ESCAPED.search(head):
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
