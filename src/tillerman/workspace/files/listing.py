"""What a folder of the workspace holds."""

from __future__ import annotations

import stat
import time

from msgspec import Struct

from tillerman.workspace.files.confined_root import ConfinedRoot
from tillerman.workspace.files.file_names import shown
from tillerman.workspace.files.refusal import Refused
from tillerman.workspace.files.walk import DEEPEST, DirectoryWalk, Kind, WalkEntry

MOST = 5_000
AT_ONCE = 0.005  # seconds


class DirectoryEntry(Struct, frozen=True):
    path: str  # from the root of the workspace
    kind: Kind
    size: int | None = None  # bytes of a file, where sizes were asked for; as is the next
    executable: bool = False
    target: str = ""  # what a link says; nobody went there


class DirectoryListing(Struct, frozen=True):
    path: str
    entries: tuple[DirectoryEntry, ...]
    notes: tuple[str, ...] = ()  # what is not shown, and why
    late: bool = False  # it took longer than it may


def list_directory(
    root: ConfinedRoot,
    path: str = ".",
    depth: int = 1,
    ignored: bool = False,
    limit: int = 500,
    sizes: bool = False,
    at_once: bool = False,
) -> DirectoryListing:
    """`sizes`: each file is asked for its own, which takes longer than all else. `at_once`: it is
    given up after some milliseconds of work."""
    if not 1 <= limit <= MOST or not 1 <= depth <= DEEPEST:
        raise Refused(
            f"depth {depth} and limit {limit} are not what a listing takes",
            hint=f"depth is 1 to {DEEPEST}, limit 1 to {MOST}",
        )
    walk = DirectoryWalk(root, path, depth=depth, ignored=ignored)
    if at_once:  # by the time that it works: on a busy machine it may wait for longer
        walk = DirectoryWalk(
            root, path, depth=depth, ignored=ignored, seconds=AT_ONCE, clock=time.thread_time
        )
    entries: list[DirectoryEntry] = []
    full = False
    for found in walk:
        if len(entries) == limit:
            full = True
            break
        if found.kind == "file" and not sizes:
            entries.append(DirectoryEntry(shown(found.path), "file"))
        elif entry := _entry(found):
            entries.append(entry)
    folder = "/".join(root.parts(path)) or "."
    return DirectoryListing(folder, tuple(entries), _notes(walk, limit, full), walk.late)


def _entry(found: WalkEntry) -> DirectoryEntry | None:
    """None where it is gone."""
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
        notes.append(f"there is more than {limit}: raise the limit, or list a folder in it")
    if walk.late:
        notes.append("it took too long: list a folder in it, or less deep")
    return tuple(notes)
