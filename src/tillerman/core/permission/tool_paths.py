"""Paths in the input of a tool: how tools may read a spelling, and fields that may name a file."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from tillerman.core.permission.shell.parsed_script import HOLE

_LONGEST = 4_096
_MOST_TEXTS = 100
_MOST_SPELLINGS = 24
_DEEPEST = 8
# Blanks, and characters without a width, which some tools remove.
_BLANK = " \t\n\r\v\f\u00a0\u1680\u180e\u2028\u2029\u202f\u205f\u2060\u3000\ufeff" + "".join(
    map(chr, (*range(0x2000, 0x2010),))
)
_PLAIN = re.compile(r"[\w/.-]+", re.ASCII)
_QUOTES = "\"'`<>"
_HOME = re.compile(r"^(?:\$HOME|\$\{HOME\}|%USERPROFILE%)(?=/|$)")
_HERE = re.compile(r"^(?:\$PWD|\$\{PWD\}|\$\(pwd\))(?=/|$)")
_ADDRESS = re.compile(r"(?i)^file:(?://(?:localhost)?(?=/))?(?=[^/]|/)")
_PLACE = re.compile(r"(?::\d+(?:[:-]\d+)*|#L?\d+[^/]*|\?[^/]*)$")  # of a line, or a query
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_FILE_ADDRESS = re.compile(r"(?i)\bfile:/[^\s\"'<>]*")
# Fields whose text is content, and not a path; without `_`, `-` and capitals.
_CONTENT = frozenset({
    "body", "code", "codeedit", "content", "contents", "data", "description", "diff", "encoding",
    "explanation", "filetext", "insertline", "instruction", "instructions", "insttext", "language",
    "message", "mode", "new", "newsource", "newstr", "newstring", "newtext", "old", "oldstr",
    "oldstring", "oldtext", "patch", "patchtext", "pattern", "prompt", "query", "reason", "regex",
    "replace", "replacement", "search", "text", "thought", "type",
})  # fmt: skip


def plain_key(key: str) -> str:
    """The name of a field, which agents spell differently."""
    return key.replace("_", "").replace("-", "").lower()


def spellings(path: str) -> tuple[str, ...]:
    """The path, and what it is for a tool that trims, unquotes, unescapes or decodes it."""
    if _PLAIN.fullmatch(path) or len(path) > _LONGEST:
        return (path,)
    found = {path: None}
    for one in found.copy():
        found |= dict.fromkeys(_read_otherwise(one))
    for _ in range(2):
        for one in list(found):
            if len(found) < _MOST_SPELLINGS:
                found |= dict.fromkeys(_read_otherwise(one))
    return tuple(one for one in found if one)


def _read_otherwise(path: str) -> Iterator[str]:
    yield path.strip(_BLANK)
    if len(path) > 2 and path[0] in _QUOTES and path[-1] in _QUOTES:
        yield path[1:-1]
    if path.startswith("@"):
        yield path.lstrip("@")
    if "\\" in path:
        yield path.replace("\\", "/")
        yield _ESCAPED.sub(r"\1", path)
    if "%" in path:
        yield unquote(path)
    yield _HERE.sub(".", _HOME.sub("~", path))
    yield _ADDRESS.sub("", path)
    yield _PLACE.sub("", path)


def other_texts(input: Mapping[str, Any], known: Collection[str]) -> tuple[str, ...]:
    """Texts of other fields that may name a file; `HOLE` if there are too many."""
    found: dict[str, None] = {}
    for text in _texts(input, 0):
        plain = text.strip(_BLANK)
        if plain and "\n" not in plain and len(plain) <= _LONGEST and text not in known:
            found[text] = None
        if len(found) > _MOST_TEXTS:
            return (*found, HOLE)
    return tuple(found)


def _texts(value: object, depth: int) -> Iterator[str]:
    if depth > _DEEPEST:
        return
    match value:
        case str():
            yield value
        case list() | tuple():
            for one in value:
                yield from _texts(one, depth + 1)
        case dict():
            for key, one in value.items():
                if plain_key(str(key)) not in _CONTENT:
                    yield from _texts(one, depth + 1)


def file_addresses(input: Mapping[str, Any]) -> tuple[str, ...]:
    """The `file:` addresses in any text of the input."""
    found = (one for text in _texts(dict(enumerate(input.values())), 0) for one in
             _FILE_ADDRESS.findall(text[:_LONGEST]))  # fmt: skip
    return tuple(dict.fromkeys(found))
