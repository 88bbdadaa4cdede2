"""The encodings in which a registered secret is detected. The documentation lists them.

Some are escapes of single characters, which `secret_forms.py` decodes during the search. The others
give the secret another text; each such text is searched like a separate secret.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator

# the supported encodings by name; `docs/secrets.md` lists the same
ENCODINGS = {
    "plain": "as it is",
    "JSON": r"`\u0041`, `\"`, `\/`, in JSON inside of JSON too",
    "URL": "`%41`, `+` for a space, encoded once or more",
    "backslash escapes": r"`\x41` and octal `\101`",
    "HTML": "`&#65;`, `&#x41;`, `&amp;` `&lt;` `&gt;` `&quot;` `&apos;`",
    "shell": "`printf %q`, backslashes, `'\\''`, `'\"'\"'`",
    "quoted-printable": "within a line",
    "base64": "standard and URL-safe, also twice, at any place in the data, wrapped in lines",
    "base32": "in either case, at any place in the data, wrapped in lines",
    "hex": "in either case: plain, wrapped in lines, with `:`, `-` or a space, or as `0x41, 0x42`",
}
_SEPARATORS = (":", "-", " ")
_HEX_LISTS = (", 0x", ",0x")


def escaped_texts(value: str) -> Iterator[str]:
    """Yields texts whose characters may be escaped in turn."""
    yield value
    if " " in value:
        yield value.replace(" ", "+")  # as in a query string
    if "'" in value:
        yield value.replace("'", "'\\''")
        yield value.replace("'", "'\"'\"'")
    printable = binascii.b2a_qp(value.encode("utf-8", "surrogatepass"))
    yield printable.replace(b"=\n", b"").decode("ascii", "surrogateescape")


def wrapped_texts(value: str) -> Iterator[str]:
    """Yields base64, base32 and hex texts, which programs wrap into lines."""
    data = value.encode("utf-8", "surrogatepass")
    for shift in range(3):
        once = _base64(data, shift)
        yield from (once, _url_safe(once))
        for outer in range(3):
            yield _base64(once.encode(), outer)
            yield _url_safe(_base64(_url_safe(once).encode(), outer))
    for shift in range(5):
        text = _base32(data, shift)
        yield from (text, text.lower())
    for pairs in (data.hex(" "), data.hex(" ").upper()):
        yield pairs.replace(" ", "")
        yield from (pairs.replace(" ", between) for between in _SEPARATORS)
        yield from (pairs.replace(" ", between) for between in _HEX_LISTS)


def _base64(data: bytes, shift: int) -> str:
    """Returns the characters determined by `data` alone, after `shift` other bytes (mod 3).

    One more character on either side is shared with the neighbours and is not redacted: it reveals
    at most four bits.
    """
    padded = bytes(shift) + data
    encoded = base64.b64encode(padded + bytes(-len(padded) % 3)).decode()
    return encoded[-(-8 * shift // 6) : 8 * len(padded) // 6]


def _url_safe(text: str) -> str:
    return text.replace("+", "-").replace("/", "_")


def _base32(data: bytes, shift: int) -> str:
    """Like `_base64`: the characters determined by `data` alone, after `shift` bytes (mod 5)."""
    padded = bytes(shift) + data
    encoded = base64.b32encode(padded + bytes(-len(padded) % 5)).decode()
    return encoded[-(-8 * shift // 5) : 8 * len(padded) // 5]
