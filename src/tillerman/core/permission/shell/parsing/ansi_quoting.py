"""Decodes the content of `$'…'` as bash does."""

from __future__ import annotations

import re

from tillerman.core.permission.shell.parsed_script import HOLE, SIGNS

_LETTERS = {
    "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t",
    "v": "\v", "\\": "\\", "'": "'", '"': '"', "?": "?",
}  # fmt: skip
_ESCAPE = re.compile(
    r"\\(?:x\{([0-9A-Fa-f]*)\}?|x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})"
    r"|([0-7]{1,3})|c(\\?.)|(.))",
    re.DOTALL,
)


def decode(text: str) -> str:
    """The decoded text, cut at the first NUL; HOLE for bytes that are not a character."""
    raw = _ESCAPE.sub(_decoded, text)
    return raw.partition("\0")[0]


def _decoded(match: re.Match[str]) -> str:
    braces, x, u, long, octal, control, letter = match.groups()
    if braces is not None:
        if not braces:
            return "\0" if match[0].endswith("}") else HOLE
        return _byte(int(braces, 16) & 0xFF)
    if x:
        return _byte(int(x, 16))
    if code := u or long:
        number = int(code, 16)
        if number > 0x10FFFF or 0xD800 <= number < 0xE000 or chr(number) in SIGNS:
            return HOLE
        return chr(number)
    if octal:
        return _byte(int(octal, 8) & 0xFF)
    if control:
        return chr(ord(control[-1].upper()) & 0x1F) if control != "?" else "\x7f"
    return _LETTERS.get(letter, "\\" + letter)


def _byte(number: int) -> str:
    return chr(number) if number < 0x80 else HOLE
