r"""How one secret may be written: plain, JSON-escaped at any depth, URL-encoded, in base64.

There are two views of a form. Its *pattern* finds it exactly, however its characters are escaped.
Its *core* is what is left of it when `unescape` undid all escapes: a text that holds the form holds
the core once it is unescaped. Cores are looked for in every line, so that must be cheap; patterns
run only where a core was found.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from functools import cached_property

# `\\` stands apart from its repeats: `re` is fast when a pattern starts with a literal.
_UNICODE_ESCAPE = re.compile(
    rb"\\\\{0,3}u(?:[dD]([89abAB][0-9a-fA-F]{2})\\{1,4}u[dD]([c-fC-F][0-9a-fA-F]{2})"
    rb"|([0-9a-fA-F]{4}))"
)
_PERCENT_ESCAPE = re.compile(rb"%(?:25)*([0-9a-fA-F]{2})")
_UNFINISHED_UNICODE = re.compile(
    rb"(?:\\{1,4}u[dD][89abAB][0-9a-fA-F]{2})?\\{1,4}(?:u[0-9a-fA-F]{0,3})?\Z"
    rb"|\\{1,4}u[dD][89abAB][0-9a-fA-F]{2}\Z"
)
_UNFINISHED_PERCENT = re.compile(rb"%(?:25)*[0-9a-fA-F]?\Z")
_WRAP = rb"(?:\r?\n|\\{1,16}r|\\{1,16}n){0,2}"  # `base64` breaks its lines; JSON escapes the break
_MOST_RAW_BYTES = 32  # of one character with its escapes and the line break before it


def unescape(text: bytes) -> bytes:
    """What all ways of escaping the same text have in common."""
    if b"\\" in text:
        text = _UNICODE_ESCAPE.sub(_character, text)
    if b"%" in text:
        text = _PERCENT_ESCAPE.sub(_byte, text)
    if b"\\" in text:
        text = text.replace(b"\\n", b"").replace(b"\\r", b"").replace(b"\\t", b"\t")
    return text.translate(None, b"\\\r\n")


def unescape_start(text: bytes) -> bytes:
    """`unescape` of a text that goes on: an escape that is not whole yet is left out."""
    if b"\\" in text:
        text = _UNICODE_ESCAPE.sub(_character, _UNFINISHED_UNICODE.sub(b"", text))
    if b"%" in text:
        text = _UNFINISHED_PERCENT.sub(b"", text)
    return unescape(text)


def _byte(escape: re.Match[bytes]) -> bytes:
    return bytes([int(escape[1], 16)])


def _character(escape: re.Match[bytes]) -> bytes:
    high, low, unit = escape.groups()
    if unit:
        return chr(int(unit, 16)).encode("utf-8", "surrogatepass")
    return chr(0x10000 + ((int(high, 16) & 0x3FF) << 10) + (int(low, 16) & 0x3FF)).encode()


@dataclass(frozen=True)
class Form:
    """One way a secret is written, but for the escapes."""

    name: str  # of the secret
    text: str
    wraps: bool = False

    @cached_property
    def core(self) -> bytes:
        return unescape(self.text.encode("utf-8", "surrogatepass"))

    @cached_property
    def pattern(self) -> re.Pattern[bytes]:
        between = _WRAP if self.wraps else b""
        return re.compile(between.join(map(_spellings, self.text)))

    @property
    def longest(self) -> int:
        return len(self.text) * _MOST_RAW_BYTES


def forms_of(name: str, value: str) -> list[Form]:
    forms = [Form(name, value)]
    if " " in value:
        forms.append(Form(name, value.replace(" ", "+")))  # as in a query string
    data = value.encode("utf-8", "surrogatepass")
    for shift in range(3):
        standard = _base64(data, shift)
        url_safe = standard.translate(str.maketrans("+/", "-_"))
        forms += [Form(name, text, wraps=True) for text in dict.fromkeys((standard, url_safe))]
    return forms


def _base64(data: bytes, shift: int) -> str:
    """The characters that `data` alone decides, standing after `shift` bytes (mod 3) of others.

    One more on either side is shared with the neighbours and is left: it tells four bits.
    """
    padded = bytes(shift) + data
    encoded = base64.b64encode(padded + bytes(-len(padded) % 3)).decode()
    return encoded[-(-8 * shift // 6) : 8 * len(padded) // 6]


def _spellings(character: str) -> bytes:
    data = character.encode("utf-8", "surrogatepass")
    units = character.encode("utf-16-be", "surrogatepass")
    codes = [units[at : at + 2].hex().encode() for at in range(0, len(units), 2)]
    ways = (
        _plain(character, data),
        b"".join(rb"\\{1,16}u" + _any_case(code) for code in codes),
        b"".join(rb"%(?:25){0,2}" + _any_case(b"%02x" % byte) for byte in data),
    )
    return b"(?:" + b"|".join(ways) + b")"


def _plain(character: str, data: bytes) -> bytes:
    match character:
        case "\\":
            return rb"\\{1,32}"
        case "/" | '"' | "'":
            return rb"\\{0,31}" + data
        case "\n" | "\r" | "\t":
            return data + rb"|\\{1,16}" + {"\n": b"n", "\r": b"r", "\t": b"t"}[character]
        case _:
            return re.escape(data)


def _any_case(hexadecimal: bytes) -> bytes:
    return re.sub(rb"[a-f]", lambda digit: b"[%b%b]" % (digit[0], digit[0].upper()), hexadecimal)
