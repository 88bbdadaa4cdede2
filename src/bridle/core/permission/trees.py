"""What lies below a folder that a call reads or changes as a whole, looked up on disk."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Protocol

from msgspec import Struct

from bridle.core.permission import names
from bridle.core.permission.shell.parsed_script import ANY, ONE, FileAccess

# What tools make and remove as a whole: settings of other projects in there steer nobody here.
GENERATED = frozenset({
    "node_modules", "bower_components", "vendor", ".venv", "venv", "site-packages", ".tox", ".nox",
    "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", "target", "dist", "build", "out",
    ".next", ".nuxt", ".cache", ".gradle", ".terraform", "coverage",
})  # fmt: skip


class Listing(Struct, frozen=True):
    paths: tuple[str, ...]  # relative to the folder, nearest first
    complete: bool = True  # False: there is more than was looked at


class FileTree(Protocol):
    """What the policy looks up on disk while it decides. Paths are absolute."""

    def glob(self, pattern: str) -> Sequence[str] | None: ...  # None: more than can be looked at
    def below(self, folder: str, skipped: frozenset[str]) -> Listing: ...
    def tracked(self, path: str) -> bool: ...  # by git, or nobody knows


def glob_pattern(path: str) -> str:
    """A path with the signs of the reader, as a pattern of `fnmatch`."""
    plain = "".join(f"[{c}]" if c in "*?[" else c for c in path)
    return plain.replace(ANY, "*").replace(ONE, "?")


class Tree:
    """The files that a recursive access reaches; looked up when first asked for."""

    def __init__(
        self,
        files: FileTree,
        folders: Sequence[str],
        access: FileAccess,
        matched: Callable[[str], bool] | None = None,
    ) -> None:
        """`matched`: of the paths below, those that are meant."""
        self._files = files
        self._matched = matched
        self._folders = folders
        self._access = access

    @cached_property
    def _listings(self) -> list[tuple[str, Listing]]:
        return [(one, self._files.below(one, frozenset())) for one in self._folders]

    @property
    def is_read(self) -> bool:
        """And not changed."""
        return self._access.kind in ("read", "mention")

    @property
    def complete(self) -> bool:
        return all(listing.complete for _, listing in self._listings)

    def files(self) -> Iterator[str]:
        """Their absolute paths, as far as the access does not leave them out."""
        for folder, listing in self._listings:
            for path in listing.paths:
                if self._reaches(path):
                    whole = posixpath.join(folder, path)
                    if not self._access.tracked or self._files.tracked(whole):
                        yield whole

    def protected(self, inner: Callable[[str], str]) -> tuple[str, bool]:
        """The first protected name below, and whether all was looked at; `inner` tells a path as
        seen from the workspace."""
        complete = True
        for folder in self._folders:
            parts = _parts(inner(folder))
            if not GENERATED.isdisjoint(parts):
                continue
            listing = self._files.below(folder, GENERATED)
            complete &= listing.complete
            for path in listing.paths:
                if not self._reaches(path) or not names.is_protected([*parts, *_parts(path)]):
                    continue
                if not self._access.tracked or self._files.tracked(posixpath.join(folder, path)):
                    return path, True
        return "", complete

    def _reaches(self, path: str) -> bool:
        if self._access.skips_hidden and (path.startswith(".") or "/." in path):
            return False
        if self._matched and not self._matched(path):
            return False
        only = self._access.only
        name = path.rpartition("/")[2]
        return not only or any(fnmatchcase(name, pattern) for pattern in only)


def _parts(path: str) -> list[str]:
    return [names.plain(part) for part in path.split("/") if part not in ("", ".")]
