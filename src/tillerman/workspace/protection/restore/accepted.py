"""Digests of accepted states of protected files, shared by all sessions of the user.

Several sessions may watch one workspace. What one of them restored, or the user took back, must not
be undone by another, so its digest is recorded here before it is put in place. Of two sessions the
older one takes precedence: the younger may have started in a wrong state. The folder is private to
the user; the records hold no content.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from tillerman.paths import make_private
from tillerman.workspace.protection.protected_state import PathNode

ABSENT = "absent"
MOST_IN_DIGEST = 1_000  # names of a folder
_MOST = 8  # digests of one path


class Accepted:
    """The accepted states of one workspace, for a session started at `since` (ns); 0: the user."""

    def __init__(self, folder: Path, workspace: Path, since: int = 0) -> None:
        self._root, self._workspace = folder, str(workspace)
        self.since = since

    @property
    def _folder(self) -> Path:
        return self._root / _name(self._workspace)

    def add(self, path: str, digest: str) -> None:
        with suppress(OSError):
            make_private(self._folder)
            known = self._read(path)
            line = f"{digest} {self.since}"
            if line not in known[:1]:
                lines = [line, *(one for one in known if one != line)][:_MOST]
                draft = self._folder / f"{_name(path)}.{os.getpid()}"
                draft.write_text("\n".join(lines))
                draft.replace(self._folder / _name(path))

    def has(self, path: str, digest: str) -> bool:
        """Returns whether the user, an older session or this one accepted the state."""
        for line in self._read(path):
            found, _, since = line.partition(" ")
            if found == digest and since.isdecimal() and int(since) <= self.since:
                return True
        return False

    def _read(self, path: str) -> list[str]:
        try:
            return (self._folder / _name(path)).read_text().split("\n")
        except OSError:
            return []


def digest_of(node: PathNode | None) -> str:
    """Returns the digest of a node; for a folder only of its kind."""
    if node is None:
        return ABSENT
    return digest(node.kind, node.content or b"")


def digest(kind: str, content: bytes) -> str:
    import hashlib  # imported here: needed only if something differs

    return hashlib.sha256(kind.encode() + b"\0" + content).hexdigest()


def folder_digest(inside: Iterable[tuple[str, str]]) -> str:
    """Returns the digest of the sorted names in a folder and their digests."""
    parts = (f"{name}\0{one}" for name, one in inside)
    return digest("folder", "\n".join(parts).encode("utf-8", "surrogateescape"))


def _name(text: str) -> str:
    import hashlib

    return hashlib.sha256(os.fsencode(text)).hexdigest()[:32]
