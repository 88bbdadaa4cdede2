r"""The forms in which a secret may be written, in all the encodings of `encodings.py`.

A form has two views. Its *pattern* matches it exactly, however its characters are escaped. Its
*core* is what remains once `unescape` decoded all escapes: a text that contains the form contains
the core once it is unescaped. Cores are searched in every line, so that must be cheap; patterns run
only where a core was found.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from tillerman.supervision.secrets.encodings import escaped_texts, wrapped_texts

# `\\` is separate from its repeats: `re` is fast when a pattern starts with a literal.
_BACKSLASH_ESCAPE = re.compile(
    rb"\\\\{0,3}(?:u(?:[dD]([89abAB][0-9a-fA-F]{2})\\{1,4}u[dD]([c-fC-F][0-9a-fA-F]{2})"
    rb"|([0-9a-fA-F]{4}))|x([0-9a-fA-F]{2})|([0-3][0-7]{2}))"
)
_PERCENT_ESCAPE = re.compile(rb"%(?:25)*([0-9a-fA-F]{2})")
_ENTITIES = {b"amp": b"&", b"lt": b"<", b"gt": b">", b"quot": b'"', b"apos": b"'"}
_NAMED = tuple((b"&%b;" % name, text) for name, text in _ENTITIES.items() if name != b"amp")
NAMED_CHARACTERS = frozenset(b"".join(_ENTITIES.values()))
_NUMBERED = re.compile(rb"&(?:amp;){0,2}#(?:0{0,5}([0-9]{1,7})|[xX]0{0,5}([0-9a-fA-F]{1,6}));")
_FREQUENT = ((b"&#x27;", b"'"), (b"&#39;", b"'"), (b"&#34;", b'"'))  # common in escaped output
_MOST_LEVELS = 3  # levels of nested entities: `&amp;amp;lt;`
_UNFINISHED_BACKSLASH = re.compile(
    rb"(?:\\{1,4}u[dD][89abAB][0-9a-fA-F]{2})?"
    rb"\\{1,4}(?:u[0-9a-fA-F]{0,3}|x[0-9a-fA-F]?|[0-3][0-7]?)?\Z"
    rb"|\\{1,4}u[dD][89abAB][0-9a-fA-F]{2}\Z"
)
_UNFINISHED_PERCENT = re.compile(rb"%(?:25)*[0-9a-fA-F]?\Z")
_UNFINISHED_ENTITY = re.compile(
    rb"&(?:amp;){0,2}(?:#[0-9]{0,12}|#[xX][0-9a-fA-F]{0,11}|[a-z]{0,4})\Z"
)
_WRAP = rb"(?:\r?\n|\\{1,16}r|\\{1,16}n){0,2}"  # `base64` wraps lines; JSON escapes the line break
_MOST_RAW_BYTES = 32  # of one character with its escapes and the preceding line break
_LINE = 60  # minimum number of characters of an encoded text between two line breaks


def unescape(text: bytes, *, named: bool = True) -> bytes:
    """Decodes all escapes, so that different spellings of a text become equal.

    Not `named`: named entities stay, for callers whose secrets contain no such character.
    """
    if b"&" in text and (named or b"#" in text):
        text = _without_entities(text, named)
    if b"\\" in text:
        text = _BACKSLASH_ESCAPE.sub(_character, text)
        if b"&" in text:  # some programs write `\u0026amp;`
            text = _without_entities(text, named)
    while b"%" in text and (decoded := _PERCENT_ESCAPE.sub(_byte, text)) != text:
        text = decoded  # a secret may contain what looks like an escape, and be encoded as a whole
    if b"\\" in text:
        text = text.replace(b"\\n", b"").replace(b"\\r", b"").replace(b"\\t", b"\t")
    return text.translate(None, b"\\\r\n")


def unescape_start(text: bytes, *, named: bool = True) -> bytes:
    """Like `unescape`, for text that continues: a trailing incomplete escape is left out."""
    if b"&" in text:
        text = _without_entities(_UNFINISHED_ENTITY.sub(b"", text), named)
    if b"\\" in text:
        text = _BACKSLASH_ESCAPE.sub(_character, _UNFINISHED_BACKSLASH.sub(b"", text))
    if b"&" in text:
        text = _UNFINISHED_ENTITY.sub(b"", text)
    if b"%" in text:
        text = _UNFINISHED_PERCENT.sub(b"", text)
    text = unescape(text, named=named)
    return _UNFINISHED_PERCENT.sub(b"", text) if b"%" in text else text


def unfinished_escape(text: bytes) -> int:
    """Returns where an escape starts that the end of the text cuts off; else its length."""
    size = len(text)
    places = (
        (_UNFINISHED_BACKSLASH, max(0, size - _MOST_RAW_BYTES)),
        (_UNFINISHED_PERCENT, max(0, text.rfind(b"%"))),
        (_UNFINISHED_ENTITY, max(0, text.rfind(b"&"))),
    )
    found = (unfinished.search(text, start) for unfinished, start in places)
    return min((match.start() for match in found if match), default=size)


def _byte(escape: re.Match[bytes]) -> bytes:
    return bytes([int(escape[1], 16)])


def _character(escape: re.Match[bytes]) -> bytes:
    high, low, unit, byte, octal = escape.groups()
    if byte or octal:
        return bytes([int(byte, 16) if byte else int(octal, 8)])
    if unit:
        return chr(int(unit, 16)).encode("utf-8", "surrogatepass")
    return chr(0x10000 + ((int(high, 16) & 0x3FF) << 10) + (int(low, 16) & 0x3FF)).encode()


def _without_entities(text: bytes, named: bool) -> bytes:
    """Decodes entities; named ones by plain replace, since a page may be full of them."""
    if named:
        for _ in range(_MOST_LEVELS):
            if b"&amp;" not in text:
                break
            text = text.replace(b"&amp;", b"&")
        for entity, character in _NAMED:
            text = text.replace(entity, character)
    if not has_numbered_entity(text):
        return text
    for entity, character in _FREQUENT:
        text = text.replace(entity, character)
    return _NUMBERED.sub(_numbered, text) if has_numbered_entity(text) else text


def has_numbered_entity(text: bytes) -> bool:
    return b"#" in text and (b"&#" in text or b"amp;#" in text)


def _numbered(escape: re.Match[bytes]) -> bytes:
    decimal, hexadecimal = escape.groups()
    code = int(decimal) if decimal else int(hexadecimal, 16)
    return chr(code).encode("utf-8", "surrogatepass") if code <= 0x10FFFF else b""


@dataclass(frozen=True)
class SecretForm:
    """One spelling of a secret, before escaping."""

    name: str  # of the secret
    text: str
    wraps: bool = False

    @cached_property
    def core(self) -> bytes:
        return unescape(self.text.encode("utf-8", "surrogatepass"))

    @cached_property
    def pattern(self) -> re.Pattern[bytes]:
        if self.wraps:
            return re.compile(_WRAP.join(map(_wrapped, self.text)))
        text = self.text.replace("\r\n", "\n")
        return re.compile(b"".join(map(_spellings_in_line, text)))

    @property
    def longest(self) -> int:
        """Returns its maximum length in bytes, with all escapes."""
        if self.wraps:
            lines = 1 + len(self.text) // _LINE
            return 4 * len(self.text) + lines * _MOST_RAW_BYTES
        return (len(self.text) + self.text.count("\n")) * _MOST_RAW_BYTES


def forms_of(name: str, value: str) -> list[SecretForm]:
    escaped = [SecretForm(name, text) for text in dict.fromkeys(escaped_texts(value))]
    return escaped + [
        SecretForm(name, text, wraps=True) for text in dict.fromkeys(wrapped_texts(value))
    ]


def _wrapped(character: str) -> bytes:
    """Letters and digits of an encoded text are never escaped."""
    return character.encode() if character.isalnum() else _spellings(character)


def _spellings_in_line(character: str) -> bytes:
    """A line may end in LF or in CRLF, whichever the value has."""
    optional = b"(?:" + _spellings("\r") + b")?" if character == "\n" else b""
    return optional + _spellings(character)


def _spellings(character: str) -> bytes:
    data = character.encode("utf-8", "surrogatepass")
    units = character.encode("utf-16-be", "surrogatepass")
    codes = [units[at : at + 2].hex().encode() for at in range(0, len(units), 2)]
    ways = (
        _plain(character, data),
        b"".join(rb"\\{1,16}u" + _any_case(code) for code in codes),
        b"".join(rb"%(?:25){0,2}" + _any_case(b"%02x" % byte) for byte in data),
        b"".join(rb"\\{1,16}x" + _any_case(b"%02x" % byte) for byte in data),
        b"".join(rb"\\{1,16}%03o" % byte for byte in data),
        b"&(?:amp;){0,2}(?:" + b"|".join(_entities(character)) + b");",
    )
    return b"(?:" + b"|".join(ways) + b")"


def _plain(character: str, data: bytes) -> bytes:
    match character:
        case "\\":
            return rb"\\{1,32}"
        case "\n" | "\r" | "\t":
            return data + rb"|\\{1,16}" + {"\n": b"n", "\r": b"r", "\t": b"t"}[character]
        case _ if character.isascii() and not character.isalnum():
            return rb"\\{0,31}" + re.escape(data)
        case _:
            return re.escape(data)


def _entities(character: str) -> list[bytes]:
    code = ord(character)
    named = [
        name for name, text in _ENTITIES.items() if text == character.encode("utf-8", "replace")
    ]
    return [b"#0{0,5}%d" % code, b"#[xX]0{0,5}" + _any_case(b"%x" % code), *named]


def _any_case(hexadecimal: bytes) -> bytes:
    return re.sub(rb"[a-f]", lambda digit: b"[%b%b]" % (digit[0], digit[0].upper()), hexadecimal)
