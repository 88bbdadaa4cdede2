"""Lists files on disk below a folder that a call reads or changes recursively."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Protocol

from tillerman.core.permission import guarded_names
from tillerman.core.permission.shell.parsed_script import ANY, ONE, FileAccess

# Folders that tools create and remove as a whole: settings of other projects in them have no
# effect here.
GENERATED = frozenset({
    "node_modules", "bower_components", "vendor", ".venv", "venv", "site-packages", ".tox", ".nox",
    "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", "target", "dist", "build", "out",
    ".next", ".nuxt", ".cache", ".gradle", ".terraform", "coverage",
})  # fmt: skip
_MOST_FOLLOWED = 2_000  # links per tree
# path prefixes below a folder: what is removed, and what replaces it
Starts = tuple[tuple[str, str], ...]


class FolderListing:
    """Paths relative to a folder, nearest first, with a cache of pattern matches."""

    def __init__(
        self, paths: tuple[str, ...], *, links: tuple[str, ...] = (), complete: bool = True
    ) -> None:
        """`links`: the paths that are symbolic links. Not `complete`: the listing was cut off."""
        self.paths = paths
        self.links = links
        self.complete = complete
        self._matched: dict[tuple[re.Pattern[str], Starts | None], list[str]] = {}
        self._protected: dict[tuple[object, ...], str] = {}

    @cached_property
    def by_name(self) -> dict[str, list[str]]:
        """The paths by last name, normalized as the most lenient file system does."""
        found: dict[str, list[str]] = {}
        spelled: dict[str, list[str]] = {}  # as they are: most names are frequent
        for path in self.paths:
            name = path[path.rfind("/") + 1 :]
            paths = spelled.get(name)
            if paths is None:
                paths = spelled[name] = found.setdefault(guarded_names.plain(name), [])
            paths.append(path)
        return found

    @cached_property
    def _has_significant_names(self) -> bool:
        return any(map(guarded_names.is_significant, self.by_name))

    @cached_property
    def _folded(self) -> list[str]:
        return list(map(fold_path, self.paths))

    def named(self, regex: re.Pattern[str]) -> list[str]:
        """The paths whose last name matches."""
        found = self._matched.get((regex, None))
        if found is None:
            named = self.by_name.items()
            found = [path for name, paths in named if regex.fullmatch(name) for path in paths]
            self._matched[regex, None] = found
        return found

    def placed(self, regex: re.Pattern[str], starts: Starts) -> list[str]:
        """The paths that match as a whole, with any of the prefixes."""
        found = self._matched.get((regex, starts))
        if found is None:
            found = [
                path
                for path, form in zip(self.paths, self._folded, strict=True)
                if any(
                    form.startswith(cut) and regex.fullmatch(prefix + form[len(cut) :])
                    for cut, prefix in starts
                )
            ]
            self._matched[regex, starts] = found
        return found

    def protected(self, parts: tuple[str, ...], key: object, reaches: Callable[[str], bool]) -> str:
        """The first protected path that is reached.

        `parts` lead to the folder; `key` identifies `reaches` in the cache.
        """
        if not self._has_significant_names and not any(map(guarded_names.is_significant, parts)):
            return ""
        found = self._protected.get((parts, key))
        if found is None:
            reached = filter(reaches, self.paths)
            found = next(
                (one for one in reached if guarded_names.is_protected([*parts, *_parts(one)])), ""
            )
            self._protected[parts, key] = found
        return found


def fold_path(path: str) -> str:
    """Normalizes a path as the most lenient file system does."""
    if path.isascii() and path.isprintable() and not _ENDINGS.search(path):
        return path.lower()
    return "/".join(map(guarded_names.plain, path.split("/")))


_ENDINGS = re.compile(r"[. ](?:/|$)")  # endings that are ignored in comparisons


class FileTree(Protocol):
    """File system queries of the policy while it decides. Paths are absolute."""

    def glob(self, pattern: str) -> Sequence[str] | None: ...  # None: too many
    def below(self, folder: str, skipped: frozenset[str]) -> FolderListing: ...
    def tracked(self, path: str) -> bool: ...  # by git, or unknown
    def ignored(self, path: str) -> bool: ...  # by git; not if unknown
    def is_folder(self, path: str) -> bool: ...  # follows links


def glob_pattern(path: str) -> str:
    """Converts a path with the shell reader's signs to a `fnmatch` pattern."""
    plain = "".join(f"[{c}]" if c in "*?[" else c for c in path)
    return plain.replace(ANY, "*").replace(ONE, "?")


class Tree:
    """The files that a recursive access reaches, listed on first use."""

    def __init__(
        self,
        files: FileTree,
        folders: Sequence[str],
        access: FileAccess,
        matched: Callable[[str], bool] | None = None,
        resolve: Callable[[str], str] = posixpath.normpath,
    ) -> None:
        """`matched` selects among the paths below. `resolve` follows links."""
        self._files = files
        self._matched = matched
        self._resolve = resolve
        self._access = access
        self.folders = folders

    @property
    def listings(self) -> list[tuple[str, FolderListing]]:
        """Listings of the folders, and of the folders that followed links lead to."""
        return self._followed[0]

    @property
    def linked_files(self) -> Sequence[str]:
        """Absolute targets of the followed links in the tree."""
        return self._followed[1]

    def followed(self) -> Iterator[str]:
        """Absolute targets of the links that are followed now, as git tracks them."""
        for folder, listing in self.listings:
            for link in listing.links if self._access.follows_links else ():
                path = posixpath.join(folder, link)
                if self._is_known_to_git(path):
                    yield self._resolve(path)

    @cached_property
    def _followed(self) -> tuple[list[tuple[str, FolderListing]], list[str]]:
        found = {one: self._files.below(one, frozenset()) for one in self.folders}
        targets: dict[str, None] = {}
        waiting = list(found) if self._access.follows_links else []
        while waiting:
            folder = waiting.pop()
            for link in found[folder].links:
                if len(targets) > _MOST_FOLLOWED:
                    break
                target = self._resolve(posixpath.join(folder, link))
                if target in targets:
                    continue
                is_folder = self._files.is_folder(target)
                if not is_folder and not self._reaches(link):
                    continue
                targets[target] = None
                if is_folder and target not in found and not self._is_covered(target, found):
                    found[target] = self._files.below(target, frozenset())
                    waiting.append(target)
        return list(found.items()), list(targets)

    def _is_covered(self, folder: str, listed: Iterable[str]) -> bool:
        """Whether all of the folder is reached without the link."""
        return not self._leaves_out and any(folder.startswith(f"{one}/") for one in listed)

    @property
    def opens_files(self) -> bool:
        return not self._access.names_only

    @property
    def is_read(self) -> bool:
        """Read and not changed."""
        return self._access.kind in ("read", "mention")

    @property
    def complete(self) -> bool:
        if len(self.linked_files) > _MOST_FOLLOWED:
            return False
        return all(listing.complete for _, listing in self.listings)

    def reached(self, folder: str, listing: FolderListing, paths: Sequence[str]) -> Iterator[str]:
        """Absolute paths of those, and of what is below them, that the access does not exclude."""
        if not paths:
            return
        if not self._leaves_out:
            yield from (posixpath.join(folder, path) for path in paths)
            return
        tops = frozenset(paths)
        for path in listing.paths:
            if (path in tops or any(above in tops for above in _above(path))) and self._reaches(
                path
            ):
                whole = posixpath.join(folder, path)
                if self._is_known_to_git(whole):
                    yield whole

    def protected(self, inner: Callable[[str], str]) -> tuple[str, bool]:
        """The first protected name below, and whether the search was complete.

        `inner` converts a path to one relative to the workspace.
        """
        complete = True
        for folder in self.folders:
            parts = _parts(inner(folder))
            if not GENERATED.isdisjoint(parts):
                continue
            listing = self._files.below(folder, GENERATED)
            complete &= listing.complete
            key = (self._access.only, self._access.skips_hidden, self._matched)
            if (
                self._access.tracked or self._access.untracked
            ):  # may change while the folder stays the same
                reached = filter(self._reaches, listing.paths)
                kept = (
                    one for one in reached if guarded_names.is_protected([*parts, *_parts(one)])
                )
                found = next(
                    (one for one in kept if self._is_known_to_git(posixpath.join(folder, one))), ""
                )
            else:
                found = listing.protected(tuple(parts), key, self._reaches)
            if found:
                return found, True
        return "", complete

    def _is_known_to_git(self, path: str) -> bool:
        """Whether git knows the file as the access requires."""
        if self._access.untracked:
            return not self._files.tracked(path) and not self._files.ignored(path)
        return not self._access.tracked or self._files.tracked(path)

    @property
    def _leaves_out(self) -> bool:
        access = self._access
        of_git = access.tracked or access.untracked
        return bool(access.only or access.skips_hidden or of_git or self._matched)

    def _reaches(self, path: str) -> bool:
        if self._access.skips_hidden and (path.startswith(".") or "/." in path):
            return False
        if self._matched and not self._matched(path):
            return False
        only = self._access.only
        name = path.rpartition("/")[2]
        return not only or any(fnmatchcase(name, pattern) for pattern in only)


def _above(path: str) -> Iterator[str]:
    while path := path.rpartition("/")[0]:
        yield path


def _parts(path: str) -> list[str]:
    return [guarded_names.plain(part) for part in path.split("/") if part not in ("", ".")]
