"""Where a search looks, by the words of its input; what we have no word for may be anywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from bridle.core.permission.globs import path_glob
from bridle.core.permission.shell.brace_expansion import expand_braces
from bridle.core.permission.shell.parsed_script import HOLE, FileAccess
from bridle.core.permission.shell.syntax import Literal, UnparsableCommand
from bridle.core.permission.spots import Context, Spot, spot
from bridle.core.permission.trees import Tree

SEARCHES = frozenset({"LS", "Glob", "Grep", "SemSearch"})
_OPENING = frozenset({"Glob", "Grep", "SemSearch"})  # what tells of files below a folder

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


def searched_tree(tool: str, input: Mapping[str, Any], context: Context) -> Spot | None:
    """All files that a search looks at; None where nothing can be looked up on disk."""
    if context.files is None or tool not in _OPENING:
        return None
    folders: list[str] = []
    patterns: list[str] = []
    for key, value in input.items():
        word = key.replace("_", "").replace("-", "").lower()
        if word in _GLOBS or (tool == "Glob" and word in ("pattern", "patterns")):
            patterns += [one for text in _texts(value) for one in _placed(text)]
        elif word in _PLACES:
            folders += _texts(value)
    found = spot(folders[0] if folders else ".", context)
    roots = list(dict.fromkeys(found.wholes[1::2]))
    matched = _matcher(patterns) if HOLE not in patterns else None
    tree = Tree(context.files, roots, FileAccess(".", "read", recursive=True), matched)
    return replace(found, tree=tree)


def _matcher(patterns: Sequence[str]) -> Callable[[str], bool] | None:
    """Of paths below the folder; a pattern without `/` is of the file's name, as in ripgrep."""
    wanted = [one.removeprefix("./") for one in patterns if not one.startswith("!")]
    if not wanted:
        return None
    globs = [(path_glob(one.lstrip("/"), False), "/" in one) for one in wanted]

    def matched(path: str) -> bool:
        name = path.rpartition("/")[2]
        return any(regex.fullmatch(path if deep else name) for regex, deep in globs)

    return matched


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
