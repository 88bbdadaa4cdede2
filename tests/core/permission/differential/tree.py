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
    empty(base)
    os.umask(0o022)
    for name in _DIRECTORIES:
        os.mkdir(f"{base}/{name}")
    for name, text in (FILES | EXECUTABLES).items():
        path = f"{base}/{name}"
        fd = os.open(path, _NEW_FILE, 0o755 if name in EXECUTABLES else 0o644)
        os.write(fd, text.encode())
        os.utime(fd, ns=_THEN)
        os.close(fd)
    for name, target in LINKS.items():
        os.symlink(target, f"{base}/{name}")


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
            if stat.S_ISDIR(status.st_mode):
                found[entry.path] = (status.st_mode, status.st_ino, 0, 0, "")
                pending.append(entry.path)
            elif stat.S_ISLNK(status.st_mode):
                found[entry.path] = (status.st_mode, status.st_ino, 0, 0, os.readlink(entry.path))
            else:
                found[entry.path] = (
                    *(status.st_mode, status.st_ino, status.st_size, status.st_mtime_ns),
                    "",
                )
    return found


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
