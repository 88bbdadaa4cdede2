"""Where a search looks, by the words of its input; what we have no word for may be anywhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bridle.core.permission.shell.brace_expansion import expand_braces
from bridle.core.permission.shell.parsed_script import HOLE
from bridle.core.permission.shell.syntax import Literal, UnparsableCommand

SEARCHES = frozenset({"LS", "Glob", "Grep", "SemSearch"})

# Keys without `_`, `-` and capitals, as agents put them together in their own ways.
_PLACES = frozenset({
    "absolutepath", "basepath", "cwd", "dir", "directories", "directory", "dirpath", "dirs", "file",
    "filepath", "filepaths", "files", "folder", "folders", "path", "paths", "root",
    "searchdirectory", "searchpath", "targetdirectories", "targetdirectory", "targetfile",
    "workdir", "workingdirectory",
})  # fmt: skip
_GLOBS = frozenset({
    "exclude", "excludepattern", "glob", "globpattern", "globs", "include", "includepattern",
})  # fmt: skip
_WORDS = frozenset({
    "description", "explanation", "filetype", "ignore", "language", "mode", "outputmode", "pattern",
    "patterns", "q", "query", "reason", "regex", "searchterm", "server", "sort", "sortby", "title",
    "tokensnum", "type",
})  # fmt: skip


def reached(tool: str, input: Mapping[str, Any]) -> Iterator[str]:
    """Paths, and patterns for them; a sign for what nobody can place."""
    for key, value in input.items():
        word = key.replace("_", "").replace("-", "").lower()
        if word in _GLOBS or (tool == "Glob" and word in ("pattern", "patterns")):
            for pattern in _texts(value):
                yield from _placed(pattern)
        elif word in _PLACES:
            yield from _texts(value)
        elif word not in _WORDS and len(word) > 1:  # `-A` and its like are options of grep
            yield from (HOLE for _ in _texts(value))


def _texts(value: object) -> Iterator[str]:
    """What a value says in words: a switch or a number names no place."""
    match value:
        case str() if value:
            yield value
        case list():
            for one in value:
                yield from _texts(one)
        case dict():
            for one in value.values():
                yield from (HOLE for _ in _texts(one))


def _placed(pattern: str) -> Iterator[str]:
    plain = pattern.replace("\\", "")
    if ".." in plain.partition("**")[2]:  # which may stand for no folder at all
        yield HOLE
        return
    try:
        parts = expand_braces((Literal(plain),))
    except UnparsableCommand:
        parts = [(Literal(HOLE),)]
    for one in ("".join(part.text for part in word if isinstance(part, Literal)) for word in parts):
        yield HOLE if "{" in one else one
