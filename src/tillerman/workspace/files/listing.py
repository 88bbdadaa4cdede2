"""Lists a folder of the workspace."""

from __future__ import annotations

import stat
import time

from msgspec import Struct

from tillerman.workspace.files.access.confined_root import ConfinedRoot
from tillerman.workspace.files.access.walk import (
    DEEPEST,
    DirectoryWalk,
    FlatFolder,
    Kind,
    WalkEntry,
)
from tillerman.workspace.files.file_names import shown
from tillerman.workspace.files.refusal import Refused

MOST = 5_000
AT_ONCE = 0.02  # seconds of CPU time


class DirectoryEntry(Struct, frozen=True, gc=False):
    path: str  # relative to the root of the workspace
    kind: Kind
    size: int | None = None  # bytes of a file, if sizes were requested; same for the next field
    executable: bool = False
    target: str = ""  # target of a link; it was not followed


class DirectoryListing(Struct, frozen=True):
    path: str
    entries: tuple[DirectoryEntry, ...]
    notes: tuple[str, ...] = ()  # what is not shown, and why
    late: bool = False  # it exceeded the time limit
    sizes: bool = False  # they were requested


def list_directory(
    root: ConfinedRoot,
    path: str = ".",
    depth: int = 1,
    ignored: bool = False,
    limit: int = 500,
    sizes: bool = False,
    at_once: bool = False,
) -> DirectoryListing:
    """Lists a folder. `sizes`: also stats each file, which takes most of the time.

    `at_once`: gives up after a few milliseconds of CPU time.
    """
    if not 1 <= limit <= MOST or not 1 <= depth <= DEEPEST:
        raise Refused(
            f"depth {depth} or limit {limit} is out of range",
            hint=f"use depth 1 to {DEEPEST}, limit 1 to {MOST}",
        )
    walk = DirectoryWalk(root, path, depth=depth, ignored=ignored)
    if at_once:  # by CPU time: on a busy machine it may wait for longer
        walk = DirectoryWalk(
            root, path, depth=depth, ignored=ignored, seconds=AT_ONCE, clock=time.thread_time
        )
    flat = walk.flat(limit + 1) if depth == 1 and not sizes else None
    entries = _flat_entries(flat) if flat else _entries(walk, limit + 1, sizes)
    full = len(entries) > limit
    folder = "/".join(root.parts(path)) or "."
    notes = _notes(walk, limit, full)
    return DirectoryListing(folder, tuple(entries[:limit]), notes, walk.late, sizes)


def _flat_entries(flat: FlatFolder) -> list[DirectoryEntry]:
    prefix, entries, targets = flat
    if prefix.isascii() and "".join([name for name, _ in entries]).isascii():
        paths = [prefix + name for name, _ in entries]
    else:
        paths = [shown(prefix + name) for name, _ in entries]
    kinds = [kind for _, kind in entries]
    found = list(map(DirectoryEntry, paths, kinds))
    for at, kind in enumerate(kinds) if targets else ():
        if kind == "link":
            found[at] = DirectoryEntry(paths[at], kind, target=shown(targets[entries[at][0]]))
    return found


def _entries(walk: DirectoryWalk, most: int, sizes: bool) -> list[DirectoryEntry]:
    entries: list[DirectoryEntry] = []
    for found in walk:
        if found.kind == "file" and not sizes:
            entries.append(DirectoryEntry(shown(found.path), "file"))
        elif entry := _entry(found):
            entries.append(entry)
        if len(entries) == most:
            break
    return entries


def _entry(found: WalkEntry) -> DirectoryEntry | None:
    """Returns the entry; None if it was removed."""
    path = shown(found.path)
    if found.kind == "file":
        status = found.status()
        if status is None:
            return None
        return DirectoryEntry(path, "file", status.st_size, bool(status.st_mode & stat.S_IXUSR))
    return DirectoryEntry(
        path, found.kind, target=shown(found.target()) if found.kind == "link" else ""
    )


def _notes(walk: DirectoryWalk, limit: int, full: bool) -> tuple[str, ...]:
    notes = [f"{count} left out: {why}" for why, count in walk.left_out.items() if count]
    if full:
        notes.append(f"more than {limit} entries: raise the limit, or list a subfolder")
    if walk.late:
        notes.append("it took too long: list a subfolder, or use a lower depth")
    return tuple(notes)
