"""Tracks links that a command line creates, and what later accesses reach through them."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Sequence
from itertools import product
from typing import NamedTuple

from msgspec.structs import replace

from tillerman.core.permission.shell.parsed_script import ANY, HOLE, ONE, FileAccess, is_open
from tillerman.core.permission.shell.shell_state import Directories

_MOST = 200
_MOST_TIMES = 4
_SIGN = re.compile(f"[{HOLE}{ANY}{ONE}]")


class Link(NamedTuple):
    target: str
    name: str
    directories: Directories
    place: int  # number of commands before it
    words: tuple[str, ...]  # of the command that creates it


def through_links(
    accesses: Iterable[FileAccess],
    links: Sequence[Link],
    place: int,
    words: tuple[str, ...] = (),
) -> list[FileAccess]:
    """The accesses, and what they reach through links that were created before."""
    found = dict.fromkeys(accesses)
    waiting = [(access, 0) for access in found]
    while waiting and len(found) < _MOST:
        access, times = waiting.pop()
        if times >= _MOST_TIMES:  # links that refer to each other
            found[replace(access, path=HOLE)] = None
            continue
        for link in links:
            same = link.words == words and HOLE in link.target  # parsed for two shells
            made = link.place < place and not same
            rests = _rests(access, link) if made else set()
            starts = {link.target, posixpath.join(posixpath.dirname(link.name), link.target)}
            for start, rest in product(sorted(starts), sorted(rests)):
                path = HOLE if HOLE in link.target else posixpath.join(start, rest)
                more = replace(access, path=path.rstrip("/") or path, directories=link.directories)
                if more not in found and path != access.path:
                    found[more] = None
                    waiting.append((more, times + 1))
    return list(found)


def _rests(access: FileAccess, link: Link) -> set[str]:
    """The parts of the path below the link, from each directory where the path goes through it."""
    found: set[str] = set()
    for base, other in product(access.directories, link.directories):
        whole, name = _whole(base, access.path), _whole(other, link.name)
        if whole is None:
            continue  # may be any path already
        if name is None:
            found.add(posixpath.basename(access.path))
            continue
        parts = whole.split("/")
        for at in range(1, len(parts) + 1):
            if _may_be(posixpath.normpath("/".join(parts[:at]) or "/"), name):
                found.add("/".join(parts[at:]))
                break
    return found


def _may_be(path: str, name: str) -> bool:
    """Compares the trailing names if only one of them is absolute."""
    parts, names = path.split("/"), posixpath.normpath(name).split("/")
    if path.startswith("/") != name.startswith("/"):
        parts, names = ([one for one in each if one not in ("", "..")] for each in (parts, names))
        length = min(len(parts), len(names))
        parts, names = parts[-length:] if length else [], names[-length:] if length else []
        return bool(parts) and all(map(_may_equal, parts, names))
    return len(parts) == len(names) and all(map(_may_equal, parts, names))


def _whole(base: str | None, path: str) -> str | None:
    """The joined path; None if it is unknown."""
    if base is None and not path.startswith(("/", "~")):
        return None
    if HOLE in path:
        return None
    return posixpath.join(base or "", path)


def _may_equal(one: str, other: str) -> bool:
    """Whether two names with placeholders can be equal."""
    if not is_open(one) and not is_open(other):
        return one == other
    heads = [_SIGN.split(text)[0] for text in (one, other)]
    tails = [_SIGN.split(text)[-1] for text in (one, other)]
    if not is_open(one):
        heads[0] = tails[0] = one
    if not is_open(other):
        heads[1] = tails[1] = other
    return (heads[0].startswith(heads[1]) or heads[1].startswith(heads[0])) and (
        tails[0].endswith(tails[1]) or tails[1].endswith(tails[0])
    )
