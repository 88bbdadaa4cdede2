"""Extracts the paths that a search tool reads from its input; unknown fields may name any path."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from tillerman.core.events import PermissionRequested
from tillerman.core.permission.folder_contents import Tree, fold_path
from tillerman.core.permission.path_location import DecisionContext, PathLocation, spot
from tillerman.core.permission.patterns import Glob, path_glob, text_glob
from tillerman.core.permission.shell.expansion.brace_expansion import expand_braces
from tillerman.core.permission.shell.parsed_script import HOLE, FileAccess
from tillerman.core.permission.shell.parsing.syntax import Literal, UnparsableCommand
from tillerman.core.permission.tool_paths import plain_key

SEARCHES = frozenset({"LS", "Glob", "Grep", "SemSearch"})
_OPENING = frozenset({"Glob", "Grep", "SemSearch"})  # tools that report files below a folder

# Field names without `_`, `-` and capitals, because agents spell them differently.
_PLACES = frozenset({
    "absolutepath", "basepath", "cwd", "dir", "directories", "directory", "dirpath", "dirs", "file",
    "filepath", "filepaths", "files", "folder", "folders", "path", "paths", "root",
    "searchdirectory", "searchpath", "targetdirectories", "targetdirectory", "targetfile",
    "workdir", "workingdirectory",
})  # fmt: skip
_GLOBS = frozenset({"glob", "globpattern", "globs", "include", "includepattern", "includes"})
_WORDS = frozenset({
    "description", "exclude", "excludepattern", "excludes", "explanation", "filetype", "ignore",
    "language", "mode", "outputmode", "pattern",
    "patterns", "q", "query", "reason", "regex", "searchterm", "server", "sort", "sortby", "title",
    "tokensnum", "type",
})  # fmt: skip


def reached(tool: str, input: Mapping[str, Any]) -> Iterator[str]:
    """Paths and path patterns; `HOLE` for a value that cannot be interpreted."""
    for key, value in input.items():
        word = plain_key(key)
        if word in _GLOBS or (tool == "Glob" and word in ("pattern", "patterns")):
            for pattern in _texts(value):
                if not all(one.startswith(_ANYWHERE) for one in pattern.split()):
                    yield from _placed(pattern)
        elif word in _PLACES:
            yield from _texts(value)
        elif word not in _WORDS and len(word) > 1:  # `-A` and the like are options of grep
            yield from (HOLE for _ in _texts(value))


def reads_folders(input: Mapping[str, Any]) -> bool:
    """Whether a tool that reads files takes folders and globs as well: it reads many."""
    return input.get("recursive") is True or any(
        plain_key(key) in _GLOBS or (isinstance(value, list) and plain_key(key) in _PLACES)
        for key, value in input.items()
    )


def _is_search(tool: str, input: Mapping[str, Any]) -> bool:
    """Whether it reads files that it finds below a folder."""
    if tool in _OPENING:
        return True
    return tool == "Read" and any(
        plain_key(key) in _GLOBS
        or (plain_key(key) in _PLACES and any(map(_GLOB.search, _texts(value))))
        for key, value in input.items()
        if plain_key(key) in _GLOBS or isinstance(value, list)
    )


def searched_tree(request: PermissionRequested, context: DecisionContext) -> PathLocation | None:
    """All files that a search reads; None if nothing can be looked up on disk."""
    tool, input = request.tool, request.input
    if context.files is None or not _is_search(tool, input):
        return None
    folders: list[str] = []
    patterns: list[str] = []
    for key, value in input.items():
        word = plain_key(key)
        if word in _GLOBS or (tool == "Glob" and word in ("pattern", "patterns")):
            patterns += _texts(value)
        elif word in _PLACES:
            folders += _texts(value)
    if tool == "Read":
        patterns += folders
        folders = [".", *(one for one in folders if not _GLOB.search(one))]
    found = spot(folders[0] if folders else ".", context)
    wholes = [whole for one in folders or ["."] for whole in spot(one, context).wholes]
    wholes += _other_folders(wholes[1::2], patterns, context)
    roots = list(dict.fromkeys(wholes[1::2]))
    # an agent of a known name whose calls cannot be changed is another one by that name
    agent = context.agent if request.changeable else ""
    follows = agent not in _FOLLOWING_NO_LINKS
    linked = follows and any(context.files.below(one, frozenset()).links for one in roots)
    matched = _matcher(patterns, wholes, agent, linked=linked)
    access = FileAccess(".", "read", recursive=True, follows_links=follows)
    tree = Tree(context.files, roots, access, matched, context.resolve)
    return replace(found, tree=tree)


_MOST_FOLDERS = 50


def _other_folders(
    roots: Sequence[str], patterns: Sequence[str], context: DecisionContext
) -> list[str]:
    """Folders elsewhere that patterns name, through a link or not: as written and resolved."""
    tops = dict.fromkeys(top for one in patterns for top in _literal_folders(one))
    named = [posixpath.normpath(posixpath.join(root, top)) for root in roots for top in tops]
    found: list[str] = []
    for one in dict.fromkeys(named[:_MOST_FOLDERS]):
        target = context.resolve(one)
        if target != one or not any(f"{one}/".startswith(f"{root}/") for root in roots):
            found += [one, target]
    return found


def _literal_folders(pattern: str) -> Iterator[str]:
    """The folders before the first glob of a pattern, which may be links."""
    for one in _alternatives(pattern.replace("\\", "")):
        literal: list[str] = []
        for part in one.split("/")[:-1]:
            if _GLOB.search(part) or HOLE in part:
                break
            literal.append(part)
        if any(literal):
            yield "/".join(literal)


# Agents whose search tools are known to skip links; others may follow them.
_FOLLOWING_NO_LINKS = frozenset({"claude"})
_GLOB = re.compile(r"[*?\[\]{}()|!+@]")


def _matcher(
    patterns: Sequence[str], roots: Sequence[str], agent: str, *, linked: bool
) -> Callable[[str], bool] | None:
    """Matches paths below the roots that a tool may find, whatever its kind of pattern.

    Tools differ in what a pattern is relative to, whether `*` matches `/`, whether a folder stands
    for its files, and where they split a text into patterns: whatever one of them may find counts.
    `linked`: links lead to further folders, whose names in the pattern are unknown.
    """
    left_out = _excluded(patterns) if agent in _EXCLUDING else None
    wanted = [part for one in patterns for part in _split(one) if not part.startswith("!")]
    loose = [_loose_globs(end) for one in wanted for end in (_ends(one) if linked else (one,))]
    globs = [] if None in loose else [glob for found in loose for glob in found or ()]
    if not globs and not left_out:
        return None
    starts = list(dict.fromkeys(map(fold_path, roots)))

    def matched(path: str) -> bool:
        if left_out and left_out(path):
            return False
        if not globs:
            return True
        folded = fold_path(path)
        wholes = (f"{start}/{folded}" for start in starts)
        return any(glob.surely(end) for whole in wholes for end in _ends(whole) for glob in globs)

    return matched


def _split(text: str) -> Iterator[str]:
    """The text, and the parts of it, if blanks or commas separate patterns."""
    parts = [text, *text.split()]
    parts += [piece for part in parts[1:] if "{" not in part for piece in part.split(",")]
    yield from dict.fromkeys(part for part in parts if part)


def _loose_globs(pattern: str) -> list[Glob] | None:
    """Globs that match at least what the pattern does in any tool; None: anything."""
    plain = pattern.replace("\\", "")
    if ".." in plain or plain.startswith((":", "~", "file:")) or re.search(r"[()|]", plain):
        return None
    plain = re.sub(r"\[[^\]/]*\]|\?", "*", plain)
    if "[" in plain or "]" in plain:
        return None
    found: list[Glob] = []
    for one in _alternatives(plain):
        if HOLE in one or "{" in one or "}" in one:
            return None
        loose = re.sub(r"\*+/?", "*", fold_path(one)).removeprefix("./").strip("/")
        if loose in ("", "."):
            return None if one else found
        found += [text_glob(loose), text_glob(f"{loose}/*")]
    return found


def _ends(path: str) -> Iterator[str]:
    """The path from each of its parts on."""
    yield path
    while path := path.partition("/")[2]:
        yield path


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
    keys = set(map(plain_key, request.input))
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
    if re.search(r"[*?\[(].*\.\.|\.\.[^/].*[*?\[(]|\.\./.*[*?\[(]", plain):
        yield HOLE  # a glob may match no folder at all, and `..` lead back
        return
    for one in _alternatives(plain):
        yield HOLE if "{" in one else one


def _alternatives(pattern: str) -> Iterator[str]:
    try:
        parts = expand_braces((Literal(pattern),))
    except UnparsableCommand:
        parts = [(Literal(HOLE),)]
    yield from ("".join(part.text for part in word if isinstance(part, Literal)) for word in parts)
