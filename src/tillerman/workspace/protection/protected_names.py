"""Scans the protected files of a workspace without following links.

Protected names, which start programs or configure agents, come from the policy. In `.git` only
files that name commands count, since git itself writes the rest. All folders except those of
package managers are scanned, up to a limit; what did not change since the last scan is not read
again.
"""

from __future__ import annotations

import os
import stat
import time
import unicodedata
from collections import deque
from collections.abc import Iterator
from functools import lru_cache

from tillerman.core.permission import protected_names as names
from tillerman.workspace.files.file_names import SKIPPED
from tillerman.workspace.protection.mark_comparison import has_same_files, is_old
from tillerman.workspace.protection.protected_state import (
    DEEPEST,
    NOTHING,
    ObservedFolder,
    PathMark,
    PathNode,
    State,
    join,
    kind_of,
    mark_of,
    parent_of,
)

MOST_FOLDERS = 2_000
MOST_IN_ONE = 1_000  # files of one protected folder
_NAMES = 10_000  # whose kind is cached
MOST_STRANGERS = 100  # new names in a folder: with more it counts as another folder
KEPT_FILE = 1 << 20
KEPT_BYTES = 16 << 20

_GIT = frozenset({"config", "config.worktree", "hooks", "commondir"})
_GIT_SHELVES = frozenset({"modules", "worktrees"})
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def scan(
    root: int,
    before: State = NOTHING,
    *,
    baseline: bool,
    role: str = "work",
    skipped: frozenset[str] = frozenset(),
    most: int = MOST_FOLDERS,
) -> State:
    """Scans the protected files. A `baseline` stores all of them.

    Otherwise only known files are read, and no new folder is entered. `role` is that of the root;
    `skipped` names are not scanned. With more than `most` folders the state is not whole, and
    another baseline continues from it.
    """
    return _Look(root, before, baseline, role, skipped, most).state()


def rescan(
    root: int, before: State, *, role: str = "work", skipped: frozenset[str] = frozenset()
) -> State | None:
    """Returns the earlier state if all marks are unchanged; None: a full scan is needed."""
    return _Look(root, before, False, role, skipped, MOST_FOLDERS).same()


def open_folder(root: int, path: str) -> int:
    """Opens a folder component by component, so that a swapped-in link is not followed."""
    folder = os.open(".", _FOLDER, dir_fd=root)
    for name in filter(None, path.split("/")):
        try:
            following = os.open(name, _FOLDER, dir_fd=folder)
        finally:
            os.close(folder)
        folder = following
    return folder


def plain(name: str) -> str:
    """Normalizes a name as the most lenient file system and reader compare it."""
    found = names.plain(name)
    return found if found.isascii() else names.plain(unicodedata.normalize("NFKC", found))


def matters(name: str, role: str) -> bool:
    """Returns whether a name is scanned in a folder of this role."""
    spelled = plain(name)
    match role:
        case "git":
            return spelled in _GIT or spelled in _GIT_SHELVES
        case "github":
            return names.is_protected([".github", spelled])
    return spelled == ".github" or spelled in names.INSTRUCTIONS or names.is_protected([spelled])


class _Look:
    def __init__(
        self,
        root: int,
        before: State,
        baseline: bool,
        role: str,
        skipped: frozenset[str],
        most: int,
    ) -> None:
        self._root, self._before, self._baseline = root, before, baseline
        self._role, self._skipped, self._most = role, skipped, most
        self._parent, self._held = "", -1  # the last parent folder opened
        self._at = time.time_ns()
        self._nodes: dict[str, PathNode] = {}
        self._instructions: dict[str, PathMark] = {}
        self._closed: set[str] = set()
        self._room = KEPT_BYTES
        self._whole = True

    def state(self) -> State:
        try:
            folders = self._folders()
        finally:
            self._close_parent()
        tops = [
            (path, name)
            for path, seen in folders.items()
            for name in seen.guarded
            if join(path, name) not in self._skipped
        ]
        behind = self._before.behind
        tops += [parent_of(path) for path in behind]
        for folder, name in tops:
            self._top(folder, name)
        if self._baseline:
            behind = self._behind(tops)
            for path in behind:
                self._top(*parent_of(path))
        for path, seen in folders.items():
            for name in seen.instructions:
                self._add_instruction(join(path, name))
        closed = frozenset(self._closed) if self._baseline else self._before.closed
        return State(
            self._at, self._nodes, self._instructions, folders, behind, closed, self._whole
        )

    def same(self) -> State | None:
        """Compares marks, and what is in folders that changed."""
        before = self._before
        try:
            folders = self._folders()
        finally:
            self._close_parent()
        if folders.keys() != before.folders.keys():
            return None
        for path, seen in folders.items():
            known = before.folders[path]
            if seen is not known and seen._replace(mark=known.mark) != known:
                return None
        return (
            before._replace(at=self._at, folders=folders)
            if has_same_files(self._root, before)
            else None
        )

    # -- folders -----------------------------------------------------------------------------------

    def _folders(self) -> dict[str, ObservedFolder]:
        """Scans known folders first, so that new ones cannot displace them."""
        found: dict[str, ObservedFolder] = {}
        todo: deque[tuple[str, str]] = deque()
        before = self._before
        grows = self._baseline and (not before.whole or before.has_new_folders)
        for path, known in before.folders.items():
            seen = self._seen(path, known.role, known)
            if seen is not None:
                found[path] = seen
            if seen is not None and (seen is not known or grows):
                todo.extend(self._inside(path, seen))
        if not before.folders:
            todo.append(("", self._role))
        while todo:
            path, role = todo.popleft()
            if path in found:
                continue
            if len(found) >= self._most:
                self._whole = False
                break
            seen = self._seen(path, role, None)
            if seen is not None:
                found[path] = seen
                todo.extend(self._inside(path, seen))
        return found

    def _inside(self, path: str, seen: ObservedFolder) -> Iterator[tuple[str, str]]:
        if path.count("/") < DEEPEST:
            for name, role in seen.folders:
                if self._baseline or role != "work":
                    yield join(path, name), role

    def _seen(self, path: str, role: str, known: ObservedFolder | None) -> ObservedFolder | None:
        try:
            if known is not None:
                status = os.stat(path or ".", dir_fd=self._root, follow_symlinks=False)
                if known.mark == mark_of(status) and self._is_old(known.mark):
                    return known
            folder = self._open(path)
        except OSError:
            return None
        try:
            seen = _listed(folder, role)
        except OSError:
            return None  # removed, or not readable
        finally:
            os.close(folder)
        if role == "empty" and seen.role != "empty" and not self._baseline:
            return None
        if seen.role == "empty" and (not path or (known and known.role == "work")):
            return seen._replace(role="work")
        return seen

    def _open(self, path: str) -> int:
        """Opens a folder; its parent is opened once for all its folders, which come in sequence."""
        parent, name = parent_of(path)
        if not parent:
            return os.open(name or ".", _FOLDER, dir_fd=self._root)
        if parent != self._parent:
            held = open_folder(self._root, parent)
            self._close_parent()
            self._parent, self._held = parent, held
        return os.open(name, _FOLDER, dir_fd=self._held)

    def _close_parent(self) -> None:
        if self._held >= 0:
            os.close(self._held)
        self._parent, self._held = "", -1

    def _is_old(self, mark: PathMark) -> bool:
        return is_old(mark, self._before)

    # -- content of folders ------------------------------------------------------------------------

    def _top(self, where: str, top: str) -> None:
        """Scans breadth-first: with too many files, the deepest folders stay closed."""
        todo, room = deque([(where, [top])]), MOST_IN_ONE
        while todo:
            path, inside = todo.popleft()
            try:
                folder = open_folder(self._root, path)
            except OSError:
                continue
            try:
                for name in inside:
                    self._add(folder, name, join(path, name))
                    if entered := self._entered(folder, name, join(path, name), room):
                        room -= len(entered)
                        todo.append((join(path, name), entered))
            finally:
                os.close(folder)

    def _entered(self, folder: int, name: str, path: str, room: int) -> list[str]:
        """Returns the names in a folder; none if it is closed, or new and thus handled as one."""
        node, known = self._nodes.get(path), self._before.nodes.get(path)
        if node is None or node.kind != "folder":
            return []
        if not self._baseline and (known is None or known.kind != "folder"):
            return []
        if not self._baseline and path in self._before.closed:
            return []
        listed: list[str] = []
        strangers = 0
        try:
            inner = os.open(name, _FOLDER, dir_fd=folder)
            try:
                with os.scandir(inner) as entries:
                    for entry in entries:
                        listed.append(entry.name)
                        strangers += join(path, entry.name) not in self._before.nodes
                        if self._baseline and len(listed) > room:
                            self._closed.add(path)
                            return []
                        if not self._baseline and strangers > MOST_STRANGERS:
                            self._nodes[path] = node._replace(kind="other")
                            return []
            finally:
                os.close(inner)
        except OSError:
            return []
        return listed

    def _add(self, folder: int, name: str, path: str) -> None:
        if path in self._nodes:
            return
        try:
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except OSError:
            return
        kind = kind_of(status.st_mode)
        content = None
        if kind == "file":
            known = self._before.nodes.get(path)
            content = self._content(folder, name, mark_of(status), known)
        elif kind == "link":
            content = _target(folder, name)
        self._nodes[path] = PathNode(
            kind,
            stat.S_IMODE(status.st_mode) if kind in ("file", "folder") else 0,
            (status.st_uid, status.st_gid),
            status.st_mtime_ns,
            content,
            mark_of(status),
        )

    def _content(
        self, folder: int, name: str, mark: PathMark, known: PathNode | None
    ) -> bytes | None:
        if known and known.mark == mark and self._is_old(mark):
            content = known.content
        elif self._baseline:
            content = read_file(folder, name, min(KEPT_FILE, self._room))
        elif known and known.content is not None and known.mark.size == mark.size:
            content = read_file(folder, name, KEPT_FILE)
        else:
            content = None
        if known and content == known.content:
            content = known.content
        self._room -= len(content or b"")
        return content

    def _add_instruction(self, path: str) -> None:
        try:
            status = os.stat(path, dir_fd=self._root, follow_symlinks=False)
        except OSError:
            return
        self._instructions[path] = mark_of(status)

    def _behind(self, tops: list[tuple[str, str]]) -> tuple[str, ...]:
        found = []
        real = os.path.realpath(f"/proc/self/fd/{self._root}")
        for folder, name in tops:
            node = self._nodes.get(join(folder, name))
            if node and node.kind == "link":
                to = os.path.realpath(os.path.join(real, folder, name))  # noqa: PTH118
                if to.startswith(f"{real}/"):
                    found.append(to.removeprefix(f"{real}/"))
        return tuple(dict.fromkeys(found))


def _listed(folder: int, role: str) -> ObservedFolder:
    mark = mark_of(os.fstat(folder))
    with os.scandir(folder) as entries:
        listed = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    if role in ("work", "empty"):
        return _listed_work(mark, listed) if listed else ObservedFolder(mark, "empty")
    guarded, folders = [], []
    a_repository = any(name == "HEAD" for name, _ in listed)
    for name, is_folder in listed:
        spelled = plain(name)
        if role == "github":
            if names.is_protected([".github", spelled]):
                guarded.append(name)
        elif spelled in _GIT:
            guarded.append(name)
        elif is_folder and (spelled in _GIT_SHELVES or not a_repository):
            folders.append((name, "git"))
    return ObservedFolder(mark, role, tuple(guarded), (), tuple(folders))


def _listed_work(mark: PathMark, listed: list[tuple[str, bool]]) -> ObservedFolder:
    """Lists a work folder. Folders of another role come first, to be scanned before the rest."""
    guarded, words, folders, special = [], [], [], []
    for name, is_folder in listed:
        kind = _kind_in_work(name)
        if is_folder and name == ".git":
            special.append((name, "git"))
        elif is_folder and kind == "github":
            special.append((name, "github"))
        elif kind in ("github", "guarded"):
            guarded.append(name)
        elif kind == "words":
            words.append(name)
        elif is_folder and name not in SKIPPED:
            folders.append((name, "work"))
    return ObservedFolder(mark, "work", tuple(guarded), tuple(words), (*special, *folders))


@lru_cache(maxsize=_NAMES)
def _kind_in_work(name: str) -> str:
    """Returns the kind of a name in a work folder.

    Cached: changed folders are listed at each scan and hold mostly the same names.
    """
    spelled = plain(name)
    if spelled == ".github":
        return "github"
    if names.is_protected([spelled]):
        return "guarded"
    return "words" if spelled in names.INSTRUCTIONS else ""


def _target(folder: int, name: str) -> bytes | None:
    try:
        return os.fsencode(os.readlink(name, dir_fd=folder))
    except OSError:
        return None


def read_file(folder: int, name: str, most: int) -> bytes | None:
    """Reads a file; None if it is larger than `most` or unreadable."""
    try:
        file = os.open(name, _FILE, dir_fd=folder)
    except OSError:
        return None
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode) or status.st_size > most:
            return None
        parts, left = [], most + 1
        while left and (part := os.read(file, min(left, 1 << 20))):
            parts.append(part)
            left -= len(part)
        return b"".join(parts) if left else None
    except OSError:
        return None
    finally:
        os.close(file)
