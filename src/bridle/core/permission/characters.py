"""Characters of a command line that cannot be seen or look like others: found and shown."""

from __future__ import annotations

import unicodedata

_CATEGORIES = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs"})
_PLAIN = frozenset(" \t\n")
# letters, marks and symbols that show nothing
_BLANK = frozenset(
    map(chr, (0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), 0x2800, 0x3164,
              *range(0xFE00, 0xFE0E), 0xFFA0, *range(0xE0100, 0xE01F0)))
)  # fmt: skip


def hidden_characters(text: str) -> dict[str, int]:
    """Each with how often it occurs."""
    if text.isascii() and text.isprintable():
        return {}
    return {c: text.count(c) for c in dict.fromkeys(text) if _is_hidden(c)}


def visible(text: str) -> str:
    """The text with a sign for each such character: `⟨U+200B⟩`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(f"⟨U+{ord(c):04X}⟩" if _is_hidden(c) else c for c in text)


def _is_hidden(c: str) -> bool:
    if c in _PLAIN:
        return False
    return c in _BLANK or unicodedata.category(c) in _CATEGORIES
