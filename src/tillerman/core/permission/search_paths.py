"""Extracts the paths that a search tool reads from its input; unknown fields may name any path."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from tillerman.core.events import PermissionRequested
from tillerman.core.permission.folder_contents import Tree
from tillerman.core.permission.path_location import DecisionContext, PathLocation, spot
from tillerman.core.permission.patterns import path_glob
from tillerman.core.permission.shell.expansion.brace_expansion import expand_braces
from tillerman.core.permission.shell.parsed_script import HOLE, FileAccess
from tillerman.core.permission.shell.parsing.syntax import Literal, UnparsableCommand

SEARCHES = frozenset({"LS", "Glob", "Grep", "SemSearch"})
_OPENING = frozenset({"Glob", "Grep", "SemSearch"})  # tools that report files below a folder

# Field names without `_`, `-` and capitals, because agents spell them differently.
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
    """Paths and path patterns; `HOLE` for a value that cannot be interpreted."""
    for key, value in input.items():
        word = key.replace("_", "").replace("-", "").lower()
        if word in _GLOBS or (tool == "Glob" and word in ("pattern", "patterns")):
            for pattern in _texts(value):
                if not all(one.startswith(_ANYWHERE) for one in pattern.split()):
                    yield from _placed(pattern)
        elif word in _PLACES:
            yield from _texts(value)
        elif word not in _WORDS and len(word) > 1:  # `-A` and the like are options of grep
            yield from (HOLE for _ in _texts(value))


def searched_tree(
    tool: str, input: Mapping[str, Any], context: DecisionContext
) -> PathLocation | None:
    """All files that a search reads; None if nothing can be looked up on disk."""
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
    matched = _matcher(patterns, context.agent) if HOLE not in patterns else None
    tree = Tree(context.files, roots, FileAccess(".", "read", recursive=True), matched)
    return replace(found, tree=tree)


def _matcher(patterns: Sequence[str], agent: str) -> Callable[[str], bool] | None:
    """Matches paths below the folder; a pattern without `/` matches file names, as in ripgrep."""
    wanted = [one.removeprefix("./") for one in patterns if not one.startswith("!")]
    left_out = _excluded(patterns) if agent in _EXCLUDING else None
    if not wanted and not left_out:
        return None
    globs = [(path_glob(one.lstrip("/"), False), "/" in one) for one in wanted]

    def matched(path: str) -> bool:
        if left_out and left_out(path):
            return False
        name = path.rpartition("/")[2]
        return not globs or any(regex.fullmatch(path if deep else name) for regex, deep in globs)

    return matched


# -- searches that exclude files -------------------------------------------------------------------

# Agents whose Grep passes `glob` to ripgrep, split at spaces and commas: `!` excludes files.
_EXCLUDING = frozenset({"claude"})
_ANYWHERE = "!**/"  # independent of the folder that ripgrep runs in
_SPECIAL = re.compile(r"[\s,!*?{}\[\]\\]", re.ASCII)  # replaced by `?`, which matches it and others


def keys_to_leave_files_out(tool: str, agent: str) -> frozenset[str]:
    """The fields of the tool's input that can exclude files; empty if there are none."""
    return frozenset({"glob"} if tool == "Grep" and agent in _EXCLUDING else ())


def searching_without(
    request: PermissionRequested, files: Collection[str], context: DecisionContext
) -> PermissionRequested | None:
    """The same search without these files.

    None if the tool cannot exclude files, or the search already has a pattern.
    """
    if not request.changeable or not keys_to_leave_files_out(request.tool, context.agent):
        return None
    keys = {key.replace("_", "").replace("-", "").lower() for key in request.input}
    if keys & _GLOBS:
        return None
    folders = [one for key in request.input if key == "path" for one in _texts(request.input[key])]
    root = spot(folders[0] if folders else ".", context).wholes[1::2]
    if len(root) != 1:
        return None
    excluded: list[str] = []
    for path in files:
        inner = _SPECIAL.sub("?", posixpath.relpath(path, root[0]))
        if inner == "." or inner.startswith("../") or not inner.isprintable():
            return None
        excluded.append(_ANYWHERE + inner)
    return replace(request, input={**request.input, "glob": " ".join(dict.fromkeys(excluded))})


def _excluded(patterns: Sequence[str]) -> Callable[[str], bool] | None:
    """Matches exclusions of the form above only: their meaning does not depend on the folder."""
    words = [word for text in patterns for word in text.split()]
    if not words or not all(word.startswith(_ANYWHERE) for word in words):
        return None
    if any(c in word for word in words for c in ",{}[]\\"):
        return None
    regexes = [path_glob(word.removeprefix("!"), True) for word in words]
    return lambda path: any(regex.fullmatch(path) for regex in regexes)


def _texts(value: object) -> Iterator[str]:
    """The texts in a value: a boolean or a number names no path."""
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
    if ".." in plain.partition("**")[2]:  # `**` may match no folder at all
        yield HOLE
        return
    try:
        parts = expand_braces((Literal(plain),))
    except UnparsableCommand:
        parts = [(Literal(HOLE),)]
    for one in ("".join(part.text for part in word if isinstance(part, Literal)) for word in parts):
        yield HOLE if "{" in one else one
