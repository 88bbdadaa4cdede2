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

Entry = tuple[int, int, int, int, str]
Snapshot = dict[str, Entry]


def absolute(path: str) -> str:
    """A path from the workspace."""
    return os.path.normpath(f"{WORKSPACE}/{path}")


def build(base: str = BASE) -> None:
    """Make the tree anew; what was there before is removed."""
    for name in os.listdir(base):
        path = f"{base}/{name}"
        if os.path.isdir(path) and not os.path.islink(path):
            remove(path)
        else:
            os.unlink(path)
    os.umask(0o022)
    for name, text in (FILES | EXECUTABLES).items():
        path = f"{base}/{name}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)
        if name in EXECUTABLES:
            os.chmod(path, 0o755)
        os.utime(path, ns=_THEN)
    for name, target in LINKS.items():
        os.symlink(target, f"{base}/{name}")


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
    folders = {path for path in both if any(_is_folder(one.get(path)) for one in (before, after))}
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
        if stat.S_ISREG(entry[0]) and entry[3] == 0:
            try:
                if Path(path).lstat().st_atime_ns:
                    found.append(path)
            except OSError:
                continue  # gone, or behind a link that leads nowhere
    return sorted(found)
