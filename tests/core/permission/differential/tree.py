"""The tree that lines run in, and what has changed in it."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

BASE = "/mnt"  # a directory that every Linux has: the tree is mounted over it
WORKSPACE = f"{BASE}/ws"
OUTSIDE = f"{BASE}/outside"
HOME = f"{BASE}/home"

FILES = {
    "ws/.git/HEAD": "ref: refs/heads/main\n",
    "ws/.git/config": "[core]\n\tbare = false\n",
    "ws/.git/hooks/pre-push.sample": "#!/bin/sh\n",
    "ws/.env": "KEY=secret\n",
    "ws/.github/workflows/ci.yml": "on: push\n",
    "ws/.github/labels.txt": "bug\n",
    "ws/src/b.txt": "one\ntwo\n",
    "ws/src/c.txt": "three\n",
    "ws/src/deep/d.txt": "deep\n",
    "ws/a.txt": "a.txt\nsrc\n",
    "ws/package.json": "{}\n",
    "ws/my file.txt": "spaced\n",
    "outside/o.txt": "outside\n",
    "outside/config": "c\n",
    "outside/src/x.txt": "x\n",
    "home/.profile": "",
}
EXECUTABLES = {"ws/tools/npm": "#!/bin/sh\n", "ws/tools/ls": "#!/bin/sh\n"}
LINKS = {"ws/out": "../outside", "ws/envlink": ".env"}
_THEN = (0, 0)
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_DIRECTORIES = sorted(
    {parent.as_posix() for name in FILES | EXECUTABLES for parent in Path(name).parents[:-1]}
)

Entry = tuple[int, int, int, int, str]
Snapshot = dict[str, Entry]


def absolute(path: str) -> str:
    """A path from the workspace."""
    return os.path.normpath(f"{WORKSPACE}/{path}")


def build(base: str = BASE) -> None:
    """Make the tree anew; what was there before is removed."""
    os.chmod(base, 0o755)
    empty(base)
    os.umask(0o022)
    for name in _DIRECTORIES:
        os.mkdir(f"{base}/{name}")
    for name in (*FILES, *EXECUTABLES, *LINKS):
        _make(base, name)


def _make(base: str, name: str) -> None:
    path = f"{base}/{name}"
    if target := LINKS.get(name):
        os.symlink(target, path)
        return
    fd = os.open(path, _NEW_FILE, 0o755 if name in EXECUTABLES else 0o644)
    os.write(fd, (FILES.get(name) or EXECUTABLES.get(name, "")).encode())
    os.utime(fd, ns=_THEN)
    os.close(fd)


def restored(before: Snapshot, after: Snapshot, since: int) -> Snapshot | None:
    """Undoes what was changed since then; None if the tree has to be built anew.

    A file counts as changed by its time of change, which no program can set: its content may differ
    although all else is the same.
    """
    try:
        return _restored(before, after, since)
    except OSError:
        return None  # a path that is too long, or something else is in the way


def _restored(before: Snapshot, after: Snapshot, since: int) -> Snapshot | None:
    for path, entry in before.items():
        if stat.S_ISDIR(entry[0]) and after.get(path) != entry:
            return None
    for path in sorted(after.keys() - before.keys(), reverse=True):  # what is inside comes first
        (os.rmdir if stat.S_ISDIR(after[path][0]) else os.unlink)(path)
    found = dict(before)
    for path, entry in before.items():
        if stat.S_ISDIR(entry[0]):
            continue
        now = after.get(path)
        if now and os.lstat(path).st_ctime_ns < since:
            continue
        if now:
            os.unlink(path)
        _make(BASE, path.removeprefix(f"{BASE}/"))
        found[path] = _entry(path, os.lstat(path))
    return found


def empty(directory: str) -> None:
    for entry in list(os.scandir(directory)):
        if entry.is_dir(follow_symlinks=False):
            remove(entry.path)
        else:
            os.unlink(entry.path)


def remove(path: str) -> None:
    """Folder by folder: a line can nest them deeper than a path, or Python, can go."""
    top, pending, moved = os.path.dirname(path), [path], 0
    while pending:
        folder = pending.pop()
        os.chmod(folder, 0o700)
        for entry in list(os.scandir(folder)):
            if entry.is_dir(follow_symlinks=False):
                moved += 1
                os.rename(entry.path, f"{top}/.removed-{moved}")
                pending.append(f"{top}/.removed-{moved}")
            else:
                os.unlink(entry.path)
        os.rmdir(folder)


def snapshot(roots: tuple[str, ...]) -> Snapshot:
    """Every path below the roots, without following links."""
    found: Snapshot = {}
    pending = [*roots]
    while pending:
        folder = pending.pop()
        try:
            entries = list(os.scandir(folder))
        except PermissionError:
            os.chmod(folder, 0o700)
            entries = list(os.scandir(folder))
        except FileNotFoundError:
            continue
        except OSError as error:
            if error.errno != errno.ENAMETOOLONG:
                raise
            continue
        for entry in entries:
            status = entry.stat(follow_symlinks=False)
            found[entry.path] = _entry(entry.path, status)
            if stat.S_ISDIR(status.st_mode):
                pending.append(entry.path)
    return found


def _entry(path: str, status: os.stat_result) -> Entry:
    if stat.S_ISDIR(status.st_mode):
        return status.st_mode, status.st_ino, 0, 0, ""
    if stat.S_ISLNK(status.st_mode):
        return status.st_mode, status.st_ino, 0, 0, os.readlink(path)
    return status.st_mode, status.st_ino, status.st_size, status.st_mtime_ns, ""


def directories(found: Snapshot) -> list[str]:
    return [path for path, entry in found.items() if stat.S_ISDIR(entry[0])]


def changes(before: Snapshot, after: Snapshot) -> set[str]:
    return {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}


def replaced_folders(before: Snapshot, after: Snapshot) -> set[str]:
    """What was or is a folder, and is not the same one as before."""
    both = {**before, **after}
    folders = {path for path in both if _is_folder(before.get(path)) or _is_folder(after.get(path))}
    return {
        path
        for path in folders
        if path not in before or path not in after or before[path][1] != after[path][1]
    }


def _is_folder(entry: Entry | None) -> bool:
    return entry is not None and stat.S_ISDIR(entry[0])


def files_read(before: Snapshot) -> list[str]:
    """Regular files of the tree as it was built that were read since: their atime is no longer 0."""
    found = []
    for path, entry in before.items():
        if entry[3] == 0 and stat.S_ISREG(entry[0]):
            try:
                if os.lstat(path).st_atime_ns:
                    found.append(path)
            except OSError:
                continue  # gone, or behind a link that leads nowhere
    return sorted(found)
