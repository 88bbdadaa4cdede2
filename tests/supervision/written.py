"""The ways in which a program writes a text that contains a secret."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from urllib.parse import quote, quote_plus, unquote, unquote_plus


def _json(value: str) -> str:
    return json.dumps(value)[1:-1]


def _base64(shift: int, *, url_safe: bool = False) -> Callable[[str], str]:
    encode = base64.urlsafe_b64encode if url_safe else base64.b64encode
    return lambda value: encode(b"~" * shift + value.encode() + b"~~").decode()


WAYS: dict[str, Callable[[str], str]] = {
    "plain": lambda value: value,
    "json": _json,
    "json in utf-8": lambda value: json.dumps(value, ensure_ascii=False)[1:-1],
    "json with \\/": lambda value: _json(value).replace("/", "\\/"),
    "json within json": lambda value: _json(_json(value)),
    "json for html": lambda value: (
        _json(value).replace("&", "\\u0026").replace("<", "\\u003c").replace("'", "\\u0027")
    ),
    "json, all escaped": lambda value: "".join(
        f"\\u{unit:04X}" for unit in memoryview(value.encode("utf-16-le")).cast("H")
    ),
    "url": lambda value: quote(value, safe=""),
    "url path": quote,
    "url query": quote_plus,
    "url within url": lambda value: quote(quote(value, safe=""), safe=""),
    "base64, first": _base64(0),
    "base64, second": _base64(1),
    "base64, third": _base64(2),
    "base64 for urls, first": _base64(0, url_safe=True),
    "base64 for urls, second": _base64(1, url_safe=True),
    "base64 for urls, third": _base64(2, url_safe=True),
    "base64 in json": lambda value: _json(_base64(1)(value)).replace("/", "\\/"),
    "base64 in a url": lambda value: quote_plus(_base64(2)(value)),
    "base64 in lines": lambda value: base64.encodebytes(
        b"~" * 40 + value.encode() + b"~" * 9
    ).decode(),
    "base64 in lines in json": lambda value: _json(
        base64.encodebytes(b"~" * 41 + value.encode() + b"~" * 9).decode()
    ),
}


def decoded(text: str) -> set[str]:
    """The text in all its decoded forms: what a thorough search would find."""
    layers = {text, unquote(text), unquote_plus(text), unquote(unquote(text))}
    layers |= {_loads(layer) for layer in layers}
    layers |= {_loads(layer) for layer in layers}
    return layers | {plain for layer in layers for plain in _from_base64(layer)}


def _from_base64(text: str) -> Iterator[str]:
    bare = "".join(c for c in text if (c.isascii() and c.isalnum()) or c in "+/-_")
    standard = bare.translate(str.maketrans("-_", "+/"))
    for start in range(4):
        piece = standard[start : start + (len(standard) - start) // 4 * 4]
        yield base64.b64decode(piece).decode("latin-1")


def _loads(text: str) -> str:
    try:
        loaded = json.loads(f'"{text}"', strict=False)
    except ValueError:
        return text
    return str(loaded)
