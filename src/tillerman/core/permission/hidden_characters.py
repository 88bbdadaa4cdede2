"""Finds and shows invisible or lookalike characters in a command line."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterator

_CATEGORIES = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs"})
_PLAIN = frozenset(" \t\n")
# letters, marks and symbols that are rendered blank, or stand for text that cannot be decoded
_BLANK = frozenset(
    map(chr, (0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), 0x2800, 0x3164,
              *range(0xFE00, 0xFE0E), 0xFFA0, 0xFFFD, *range(0xE0100, 0xE01F0)))
)  # fmt: skip


# after a symbol these select how it is drawn (❤️), after anything else they are invisible
_SELECTORS = frozenset("\ufe0e\ufe0f")
_DRAWN = frozenset({"So", "Sm", "Sk", "Po"})


def hidden_characters(text: str) -> dict[str, int]:
    """The hidden characters, with the number of occurrences."""
    if text.isascii() and text.isprintable():
        return {}
    return dict(Counter(c for c, hidden in _marked(text) if hidden))


def visible(text: str) -> str:
    """Replaces each hidden character by its code point: `⟨U+200B⟩`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(f"⟨U+{ord(c):04X}⟩" if hidden else c for c, hidden in _marked(text))


def _marked(text: str) -> Iterator[tuple[str, bool]]:
    known: dict[str, bool] = {}
    before = ""
    for c in text:
        if c in _SELECTORS:
            drawn = not before.isascii() and unicodedata.category(before) in _DRAWN
            yield c, not drawn
        else:
            if c not in known:
                known[c] = _is_hidden(c)
            yield c, known[c]
        before = c


def _is_hidden(c: str) -> bool:
    if c in _PLAIN:
        return False
    return c in _BLANK or unicodedata.category(c) in _CATEGORIES
