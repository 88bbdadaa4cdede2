"""Locates a path: inside or outside the workspace, and whether its name is protected."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from pathlib import PurePath
from urllib.parse import unquote

from msgspec import Struct
from msgspec.structs import replace

from tillerman.core.agent import Mode
from tillerman.core.permission import guarded_names
from tillerman.core.permission.folder_contents import (
    FileTree,
    Starts,
    Tree,
    fold_path,
    glob_pattern,
)
from tillerman.core.permission.patterns import path_glob
from tillerman.core.permission.shell.parsed_script import (
    HOLE,
    SIGNS,
    WRITTEN,
    Directory,
    FileAccess,
    shown,
)

PLACES = ("inside", "outside", "protected", "instructions", "unnamed")
# for text that could not be parsed fully or has invisible characters; only for built-in rules
UNREAD, HIDDEN = "unread", "hidden"
WORKS_OUTSIDE = "works outside"  # the folder of a command that may change any file in it
ALL_PLACES = frozenset({*PLACES, UNREAD, HIDDEN, WORKS_OUTSIDE})
_LONGEST, _LONGEST_NAME = 4_096, 255


class DecisionContext(Struct, frozen=True):
    """The context of a decision: workspace, mode, agent and file system access.

    `resolve` follows links; without I/O it only normalizes a path. `cwd` and `folders` are the
    workspace, and may contain one another. `base` is the start of relative paths, if the agent
    changed its directory.
    """

    cwd: PurePath
    folders: tuple[PurePath, ...] = ()
    base: PurePath | None = None
    mode: Mode = "agent"
    home: PurePath | None = None
    resolve: Callable[[str], str] = posixpath.normpath
    agent: str = ""
    files: FileTree | None = None  # None: no queries on disk


class PathLocation(Struct, frozen=True):
    """A path in all its forms: as written and with links resolved, from each possible folder."""

    told: str
    places: frozenset[str]  # the union over all forms
    wholes: tuple[str, ...] = ()
    inners: tuple[str, ...] = ()  # the same, relative to the workspace
    # both, from each root that contains it, as the most lenient file system compares them
    folded: tuple[tuple[str, str], ...] = ()
    expanded: bool = False  # its globs were expanded on disk: exactly these files
    tree: Tree | None = None  # including everything below
    possible: bool = False  # an unknown part of the tree is accessed

    def matches(self, pattern: str, home: PurePath | None, *, every: bool) -> bool:
        """`every`: each form must match exactly; otherwise any form, normalized, is enough."""
        if pattern in ALL_PLACES:
            return self._is(pattern, every)
        if not self.wholes:
            return False
        if pattern.startswith("~"):
            if home is None:
                return False
            pattern = str(home) + pattern[1:]
        if every:
            return all(map(partial(_allowed, pattern), self.wholes, self.inners))
        return any(_forbidden(pattern, whole, inner) for whole, inner in self.folded)

    def _is(self, place: str, every: bool) -> bool:
        if every and place == "inside":
            return not self.places & {"outside", "unnamed"}
        return place in self.places


def _allowed(pattern: str, whole: str, inner: str) -> bool:
    """Exact match, for rules that allow."""
    if pattern.startswith("/"):
        return _fits(pattern, whole)
    if "/" in pattern.rstrip("/"):
        anchored = pattern.removeprefix("./")
        return (_is_inside(inner) or anchored.startswith("../")) and _fits(anchored, inner)
    parts = inner.split("/")
    looked = parts[:-1] if pattern.endswith("/") else parts[-1:]
    return _is_inside(inner) and any(_fits(pattern, part) for part in looked)


def _fits(pattern: str, text: str) -> bool:
    return path_glob(pattern, False).fullmatch(text) is not None


def _forbidden(pattern: str, whole: str, inner: str) -> bool:
    """Normalized match, including everything below, for rules that deny."""
    regex, kind = _lenient_regex(pattern)
    match kind:
        case "whole":
            return regex.fullmatch(whole) is not None
        case "inner":
            return regex.fullmatch(inner) is not None
    return any(regex.fullmatch(part) for part in inner.split("/") if part)


@lru_cache(maxsize=8192)
def _lenient_regex(pattern: str) -> tuple[re.Pattern[str], str]:
    folded = fold_path(pattern.removesuffix("/**"))
    if pattern.startswith("/"):
        return path_glob(folded, True), "whole"
    if "/" in pattern.rstrip("/"):
        return path_glob(folded.removeprefix("./"), True), "inner"
    return path_glob(folded, True), "name"


# Of any process, not only of the one that opens it: all of a session may work in its folder.
_PROCESS_FOLDER = re.compile(r"/+proc/(?:self|thread-self|\d+)(?:/task/\d+)?/(cwd|root)(?=/|$)")


def spot(
    path: str,
    context: DecisionContext,
    *,
    removed: bool = False,
    folders: Sequence[Directory] = ("",),
    told: str = "",
) -> PathLocation:
    told = told or shown(path[:_LONGEST])
    if len(path) > _LONGEST or any(len(part) > _LONGEST_NAME for part in path.split("/")):
        return PathLocation(told, frozenset({"outside"}))  # no file system has such a file
    if HOLE in path or not _can_be_named(path):
        return PathLocation(told, frozenset({"unnamed"}))
    named: list[str] = []
    for folder in folders:
        if folder is None and not path.startswith(("/", "~")):
            return PathLocation(told, frozenset({"unnamed"}))
        base = _absolute(folder or "", str(context.base or context.cwd), context)
        if base is None:
            return PathLocation(told, frozenset({"outside"}))
        for entered in _entered(base):
            whole = _absolute(path, entered, context)
            if whole is None:
                return PathLocation(told, frozenset({"outside"}))
            named.append(whole)
            if process := _PROCESS_FOLDER.match(posixpath.normpath(whole)):
                inside = posixpath.normpath(whole)[process.end() :]
                named.append(f"{entered if process[1] == 'cwd' else ''}{inside}" or "/")
    matches = _files_matching(named, context) if not SIGNS.isdisjoint(path) else None
    return _placed(told, [*named, *(matches or ())], context, removed, matches is not None)


def _entered(folder: str) -> tuple[str, ...]:
    """Where `cd` may go: unlike the kernel, shells take `..` off the path behind a link."""
    plain = posixpath.normpath(folder)
    return (folder, plain) if ".." in folder and plain != folder else (folder,)


def _can_be_named(path: str) -> bool:
    """Whether a file can have this name: what a program makes of a lone surrogate is unknown."""
    if path.isascii():
        return True
    try:
        path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


def _files_matching(patterns: Sequence[str], context: DecisionContext) -> list[str] | None:
    """The files on disk that the globs match; None: unknown."""
    if context.files is None:
        return None
    found: list[str] = []
    for pattern in patterns:
        matched = context.files.glob(glob_pattern(pattern))
        if matched is None:
            return None
        found += matched
    return found


def _placed(
    told: str, named: Sequence[str], context: DecisionContext, removed: bool, expanded: bool
) -> PathLocation:
    wholes = [form for one in named for form in (posixpath.normpath(one), context.resolve(one))]
    roots = [posixpath.normpath(str(root)) for root in (context.cwd, *context.folders)]
    real = [context.resolve(root) for root in roots]
    inners = [_inners(one, real if at % 2 else [*roots, *real]) for at, one in enumerate(wholes)]
    seen = [(whole, inner) for whole, all in zip(wholes, inners, strict=True) for inner in all]
    forms = tuple(dict.fromkeys(seen))
    places: set[str] = set()
    for whole, inner in forms:
        places |= _places(whole, inner, removed)
    if removed and context.home and str(context.home) in wholes:
        places.add("protected")
    folded = tuple(dict.fromkeys((fold_path(whole), fold_path(inner)) for whole, inner in forms))
    return PathLocation(
        told,
        frozenset(places),
        tuple(wholes),
        tuple(all[0] for all in inners),
        folded,
        expanded=expanded,
    )


def spot_of(access: FileAccess, context: DecisionContext) -> PathLocation:
    """The location of a file or file tree that a command accesses."""
    below = access.kind == "write" and posixpath.normpath(access.path) != "."
    removed = (access.kind == "remove" or (access.recursive and below)) and not access.only
    found = spot(access.path, context, folders=access.directories, removed=removed)
    if not access.recursive or context.files is None:
        return found
    roots = [one for one in dict.fromkeys(found.wholes[1::2]) if SIGNS.isdisjoint(one)]
    found = replace(
        found,
        possible=access.possible,
        tree=Tree(context.files, roots, access, resolve=context.resolve),
    )
    if access.kind in ("write", "remove"):
        return holding(found, found.tree, context)
    if access.follows_links and found.tree and "outside" not in found.places:
        linked = (seen_from_workspace(one, context) for one in found.tree.followed())
        if not all(map(_is_inside, linked)):
            return replace(found, places=found.places | {"outside"})
    return found


def holding(found: PathLocation, tree: Tree | None, context: DecisionContext) -> PathLocation:
    """The location marked as protected if it changes a tree that contains a protected name."""
    if tree is None or "protected" in found.places:
        return found
    name, complete = tree.protected(lambda path: seen_from_workspace(path, context))
    if name:
        told = f"{found.told}, which contains {name}"
        return replace(found, told=told, places=found.places | {"protected"})
    if not complete:
        told = f"{found.told}, which contains more files than were checked"
        return replace(found, told=told, places=found.places | {"unnamed"})
    return found


def relative_directories(
    directories: Sequence[Directory], context: DecisionContext
) -> set[str | None]:
    """The possible working directories relative to the workspace: "" is its root, None unknown."""
    found: set[str | None] = set()
    for directory in directories:
        base = str(context.base or context.cwd)
        whole = None if directory is None else _absolute(directory, base, context)
        if whole is None or HOLE in whole:
            found.add(None)
            continue
        inner = posixpath.relpath(posixpath.normpath(whole), str(context.cwd))
        found.add("" if inner == "." else inner)
    return found


def seen_from_workspace(path: str, context: DecisionContext) -> str:
    roots = [context.resolve(str(root)) for root in (context.cwd, *context.folders)]
    return _inners(path, roots)[0]


def forbidden_below(pattern: str, tree: Tree, context: DecisionContext) -> Iterator[str]:
    """The files of the tree that a pattern denies, and the folders that are reached completely."""
    if pattern.startswith("~"):
        pattern = f"{context.home or '/**'}{pattern[1:]}"
    regex, kind = _lenient_regex(pattern)
    roots = [context.resolve(str(root)) for root in (context.cwd, *context.folders)]
    for folder, listing in tree.listings:
        if kind == "name":
            found = listing.named(regex)
        elif kind == "whole":
            found = listing.placed(regex, (("", fold_path(folder.rstrip("/") + "/")),))
        else:
            found = listing.placed(regex, _starts(folder, roots))
        yield from tree.reached(folder, listing, found)
    for target in tree.linked_files:
        whole = fold_path(target)
        if any(_forbidden(pattern, whole, fold_path(one)) for one in _inners(target, roots)):
            yield target


def may_lie_below(pattern: str, tree: Tree, context: DecisionContext) -> bool:
    """Whether a pattern can match a file of the tree, judging by its literal beginning."""
    if pattern.startswith("~") and context.home:
        pattern = f"{context.home}{pattern[1:]}"
    if not pattern.startswith("/"):
        return True
    head = fold_path(_HEAD.match(pattern)[0])  # type: ignore[index]
    return any(
        head.startswith(top) or top.startswith(head)
        for top in (fold_path(one.rstrip("/")) + "/" for one in tree.folders)
    )


_HEAD = re.compile(r"[^*?\\]*")  # the literal beginning of a pattern


def _starts(folder: str, roots: Sequence[str]) -> Starts:
    """Prefixes of paths below a folder, relative to each root, which may also be below it."""
    found: list[tuple[str, str]] = []
    for root in roots:
        inner, above = _inner(folder, root), _inner(root, folder)
        if inner:
            found.append(("", "" if inner == "." else f"{fold_path(inner)}/"))
        elif above:
            found.append((f"{fold_path(above)}/", ""))
    outside = f"{fold_path(posixpath.relpath(folder, roots[0]))}/"
    return tuple(dict.fromkeys(found)) if any(not cut for cut, _ in found) else (
        *found, ("", outside))  # fmt: skip


def _places(whole: str, inner: str, removed: bool) -> set[str]:
    inside = _is_inside(inner)
    found = {"inside" if inside else "outside"}
    if inner == "." or inner.replace("../", "") == "..":
        # moving or deleting the root, or a folder above it, moves every protected name in it
        return found | {"protected"} if removed else found
    parts = [guarded_names.plain(part) for part in (inner if inside else whole).split("/") if part]
    if guarded_names.is_protected(parts, removed=removed) or any(map(_may_be_protected, parts)):
        found.add("protected")
    if parts and parts[-1] in guarded_names.INSTRUCTIONS:
        found.add("instructions")
    return found


def _may_be_protected(part: str) -> bool:
    return not SIGNS.isdisjoint(part) and guarded_names.may_be_protected(part.translate(WRITTEN))


def _is_inside(inner: str) -> bool:
    return inner != ".." and not inner.startswith("../")


def _inners(path: str, roots: Sequence[str]) -> list[str]:
    """The path relative to each root that contains it; to the first root if none does."""
    found = [inner for root in roots if (inner := _inner(path, root))]
    return found or [posixpath.relpath(path, roots[0])]


def _inner(path: str, root: str) -> str:
    if path == root:
        return "."
    prefix = root.rstrip("/") + "/"
    return path[len(prefix) :] if path.startswith(prefix) else ""


def _absolute(path: str, base: str, context: DecisionContext) -> str | None:
    """The absolute path; None if it is not a path, or one that cannot be located."""
    if "\0" in path:
        return None
    if path.startswith("file://"):
        path = unquote(path.removeprefix("file://"))
    if path == "~" or path.startswith("~/"):
        return posixpath.join(str(context.home), path[2:]) if context.home else None
    return None if path.startswith("~") else posixpath.join(base, path)
