"""Where in the world a path lies: inside the workspace or not, and whether its name is guarded."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from pathlib import PurePath
from urllib.parse import unquote

from msgspec import Struct

from bridle.core.agent import Mode
from bridle.core.permission import names
from bridle.core.permission.globs import path_glob
from bridle.core.permission.shell.parsed_script import HOLE, SIGNS, WRITTEN, Directory, shown

PLACES = ("inside", "outside", "protected", "instructions", "unnamed")
_LONGEST, _LONGEST_NAME = 4_096, 255


class Context(Struct, frozen=True):
    """Where a request is judged. `resolve` follows links; without I/O it can only tidy a path.

    `cwd` and `folders` are the workspace, and may lie in one another. `base` is what relative
    paths begin at, where the agent went elsewhere.
    """

    cwd: PurePath
    folders: tuple[PurePath, ...] = ()
    base: PurePath | None = None
    mode: Mode = "agent"
    home: PurePath | None = None
    resolve: Callable[[str], str] = posixpath.normpath
    agent: str = ""


class Spot(Struct, frozen=True):
    """A path in all its forms: as written and with links followed, from each possible folder."""

    told: str
    places: frozenset[str]  # all that hold of any form
    wholes: tuple[str, ...] = ()
    inners: tuple[str, ...] = ()  # the same seen from the workspace
    # both, from each root that it lies in, as the laxest file system compares them
    folded: tuple[tuple[str, str], ...] = ()

    def matches(self, pattern: str, home: PurePath | None, *, every: bool) -> bool:
        """`every`: each form must match, letter for letter; else any will do, however spelled."""
        if pattern in PLACES:
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
    """Letter for letter."""
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
    """However it is spelled, and what lies below it."""
    regex, kind = _lax(pattern)
    match kind:
        case "whole":
            return regex.fullmatch(whole) is not None
        case "inner":
            return regex.fullmatch(inner) is not None
    return any(regex.fullmatch(part) for part in inner.split("/") if part)


@lru_cache(maxsize=8192)
def _lax(pattern: str) -> tuple[re.Pattern[str], str]:
    folded = _folded(pattern.removesuffix("/**"))
    if pattern.startswith("/"):
        return path_glob(folded, True), "whole"
    if "/" in pattern.rstrip("/"):
        return path_glob(folded.removeprefix("./"), True), "inner"
    return path_glob(folded, True), "name"


def _folded(path: str) -> str:
    return "/".join(names.plain(part) for part in path.split("/"))


def spot(
    path: str,
    context: Context,
    *,
    removed: bool = False,
    folders: Sequence[Directory] = ("",),
    told: str = "",
) -> Spot:
    told = told or shown(path[:_LONGEST])
    if len(path) > _LONGEST or any(len(part) > _LONGEST_NAME for part in path.split("/")):
        return Spot(told, frozenset({"outside"}))  # no file system has such a file
    if HOLE in path:
        return Spot(told, frozenset({"unnamed"}))
    wholes: list[str] = []
    for folder in folders:
        if folder is None and not path.startswith(("/", "~")):
            return Spot(told, frozenset({"unnamed"}))
        base = _absolute(folder or "", str(context.base or context.cwd), context)
        whole = _absolute(path, base, context) if base is not None else None
        if whole is None:
            return Spot(told, frozenset({"outside"}))
        wholes += [posixpath.normpath(whole), context.resolve(whole)]
    roots = [posixpath.normpath(str(root)) for root in (context.cwd, *context.folders)]
    real = [context.resolve(root) for root in roots]
    inners = [_inners(one, real if at % 2 else [*roots, *real]) for at, one in enumerate(wholes)]
    seen = [(whole, inner) for whole, all in zip(wholes, inners, strict=True) for inner in all]
    forms = tuple(dict.fromkeys(seen))
    places: set[str] = set()
    for whole, inner in forms:
        places |= _places(whole, inner, removed)
    folded = tuple(dict.fromkeys((_folded(whole), _folded(inner)) for whole, inner in forms))
    return Spot(told, frozenset(places), tuple(wholes), tuple(all[0] for all in inners), folded)


def _places(whole: str, inner: str, removed: bool) -> set[str]:
    inside = _is_inside(inner)
    found = {"inside" if inside else "outside"}
    if inner == ".":
        # to move or delete the root moves every protected name in it
        return found | {"protected"} if removed else found
    parts = [names.plain(part) for part in (inner if inside else whole).split("/") if part]
    if names.is_protected(parts, removed=removed) or any(map(_may_be_protected, parts)):
        found.add("protected")
    if parts and parts[-1] in names.INSTRUCTIONS:
        found.add("instructions")
    return found


def _may_be_protected(part: str) -> bool:
    return not SIGNS.isdisjoint(part) and names.may_be_protected(part.translate(WRITTEN))


def _is_inside(inner: str) -> bool:
    return inner != ".." and not inner.startswith("../")


def _inners(path: str, roots: Sequence[str]) -> list[str]:
    """From each root that it lies in; from the first where it lies in none."""
    found = [inner for root in roots if (inner := _inner(path, root))]
    return found or [posixpath.relpath(path, roots[0])]


def _inner(path: str, root: str) -> str:
    if path == root:
        return "."
    prefix = root.rstrip("/") + "/"
    return path[len(prefix) :] if path.startswith(prefix) else ""


def _absolute(path: str, base: str, context: Context) -> str | None:
    """None for what cannot be a path, or not one that we can place."""
    if "\0" in path:
        return None
    if path.startswith("file://"):
        path = unquote(path.removeprefix("file://"))
    if path == "~" or path.startswith("~/"):
        return posixpath.join(str(context.home), path[2:]) if context.home else None
    return None if path.startswith("~") else posixpath.join(base, path)
