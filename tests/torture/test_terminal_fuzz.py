"""Random text, half of it hostile: the output has a fixed alphabet, wherever it was cut."""

import random
import re
import unicodedata

import pytest

from tillerman.core.terminal_sanitizer import TerminalSanitizer, clean

_HOSTILE = [
    "\x1b[", "\x1b]52;c;", "\x1b]8;;", "\x1b]0;", "\x1bP", "\x1b_", "\x1b^", "\x1bX", "\x1b\\",
    "\x1b", "\x07", "\x9b", "\x9d", "\x90", "\x9c", "\x18", "\r", "\r\n", "\n", "\t", "31m", ";",
    "\u202e", "\u2066", "\u200b", "\ufeff", "\U000e0041", "\ufe0f", "\ud800", "\u2028", "\x00",
]  # fmt: skip
_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ud800-\udfff\U000e0000-\U000e0fff]"
)
_NEVER_SHOWN = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def _fuzzed(random: random.Random) -> str:
    parts = []
    for _ in range(random.randrange(1, 12)):
        match random.randrange(4):
            case 0:
                parts.append(chr(random.randrange(0x110000)))
            case 1:
                parts.append("".join(chr(random.randrange(0x20, 0x7F)) for _ in range(6)))
            case 2:
                parts.append(chr(random.randrange(0x100)))
            case _:
                parts.append(random.choice(_HOSTILE))
    return "".join(parts)


def _check(seed: int, count: int) -> None:
    chance = random.Random(seed)
    for _ in range(count):
        text = _fuzzed(chance)
        out = clean(text)
        assert not _CONTROL.search(out), ascii(text)
        for character in set(out) - {"\n", "\t"}:
            if unicodedata.category(character) in _NEVER_SHOWN:
                assert _is_a_visible_format(character), (ascii(text), ascii(character))
        cleaner, cut = TerminalSanitizer(), chance.randrange(len(text) + 1)
        assert cleaner.feed(text[:cut]) + cleaner.feed(text[cut:]) == out, ascii(text)


def _is_a_visible_format(character: str) -> bool:
    """Unicode classifies some visible signs as "format": Arabic and Egyptian number marks."""
    code = ord(character)
    return 0x600 <= code <= 0x8E2 or code in {0x110BD, 0x110CD} or 0x13430 <= code <= 0x1343F


@pytest.mark.parametrize("seed", range(4))
def test_fuzzed_text_is_harmless(seed: int) -> None:
    _check(seed, 5_000)


@pytest.mark.torture
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(100, 110))
def test_a_million_fuzzed_texts_are_harmless(seed: int) -> None:
    _check(seed, 100_000)
