"""Opens files inside the workspace root; no path can escape it. Used by every file tool.

The folder is opened once, and all other files relative to that descriptor. Reads may follow links
that stay inside. Writes follow no link: the target has another name, which the caller should have
given. No path is checked first and opened by name later, so there is no race between check and use.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import stat
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Self

from tillerman.workspace.files.access.draft_files import DraftFile, ObservedFile, on_one_mount
from tillerman.workspace.files.access.guarded_names import GuardedNames
from tillerman.workspace.files.access.open_beneath import (
    BENEATH,
    FOLDER,
    has_openat2,
    is_link,
    not_a_file,
    openat2,
    status_of,
    step,
    walk_down,
)
from tillerman.workspace.files.access.path_locks import HeldLock, PathLocks
from tillerman.workspace.files.file_names import shown
from tillerman.workspace.files.refusal import Refused, refused

_LONGEST, _LONGEST_NAME = 4_000, 255  # bytes; the kernel accepts 4,095
_DEEPEST = 200


class Written(NamedTuple):
    created: bool
    size: int


class ConfinedRoot:
    """A workspace. `walk`: without openat2, as on old kernels; then no link is followed."""

    def __init__(
        self,
        path: Path,
        *,
        walk: bool = False,
        guarded: bool = True,
        locks: PathLocks | None = None,
    ) -> None:
        self.locks = locks
        self.path = Path(os.path.abspath(path))  # noqa: PTH100 -- links are not resolved
        self._spellings = (str(self.path), str(self.path.resolve()))
        try:
            self.fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise refused(error, str(path)) from None
        self.walks = walk or not has_openat2(self.fd)
        self.has_unnamed = not walk and Path("/proc/self/fd").exists()
        self.guard = GuardedNames() if guarded else None
        if self.guard:
            self.guard.scan(self.fd, ())

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
        if self.guard:
            self.guard.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # names

    def parts(self, path: str) -> tuple[str, ...]:
        """Splits a path into its names from the root, lexically; none for the root itself."""
        if "\0" in path:
            raise Refused("a path contains a NUL character", hint="remove it")
        try:
            length = len(os.fsencode(path))
        except UnicodeEncodeError:
            raise Refused(f"{path!r} cannot be a file's name", hint="use UTF-8 text") from None
        told = shown(path)
        if not path:
            raise Refused("a path is empty", hint="`.` is the workspace itself")
        if path.startswith(("~", "file://")):
            raise Refused(
                f"{told} is not expanded",
                hint=f"paths are relative to {self.path}; for a literal name, write `./` before it",
            )
        if path.startswith("/"):
            path = self._inner(posixpath.normpath(path), told)
        parts = [part for part in posixpath.normpath(path).split("/") if part != "."]
        if parts[:1] == [".."]:
            raise self._outside(told)
        if length > _LONGEST or len(parts) > _DEEPEST:
            raise Refused(f"{told[:80]}… is too long for a path", hint="use a shorter one")
        for part in parts:
            if len(os.fsencode(part)) > _LONGEST_NAME:
                raise Refused(
                    f"{shown(part)[:80]}… is too long for a name", hint="use a shorter one"
                )
        return tuple(parts)

    def _inner(self, path: str, told: str) -> str:
        for root in self._spellings:
            if path == root:
                return "."
            prefix = root.rstrip("/") + "/"
            if path.startswith(prefix):
                return path[len(prefix) :]
        raise self._outside(told)

    def _outside(self, told: str) -> Refused:
        return Refused(f"{told} is outside the workspace", hint=f"stay in {self.path}")

    # reading

    def open_file(self, path: str) -> int:
        """Opens a regular file for reading and returns the descriptor. The caller closes it."""
        parts = self.parts(path)
        if not parts or path.endswith("/"):
            raise Refused(f"{shown(path)} names a folder", hint="name a file")
        with self.explained(path):
            opened = self._beneath(parts, os.O_RDONLY)
        mode = os.fstat(opened).st_mode
        if not stat.S_ISREG(mode):
            os.close(opened)
            raise not_a_file(shown(path), mode)
        return opened

    def open_folder(self, path: str) -> int:
        parts = self.parts(path)
        with self.explained(path):
            return self._beneath(parts, os.O_RDONLY | os.O_DIRECTORY)

    def location(self, path: str) -> Path:
        """Resolves a folder to an absolute path without links."""
        if not self.parts(path):
            return Path(f"/proc/self/fd/{self.fd}").readlink()
        folder = self.open_folder(path)
        try:
            return Path(f"/proc/self/fd/{folder}").readlink()
        finally:
            os.close(folder)

    def _beneath(self, parts: Sequence[str], flags: int) -> int:
        if self.walks:
            return walk_down(self.fd, parts, flags)
        return openat2(self.fd, "/".join(parts) or ".", flags, BENEATH)

    # writing

    @contextlib.contextmanager
    def slot(self, path: str, *, create_parents: bool = False, lock: bool = True) -> Iterator[Slot]:
        """Locks a file's name, to read and replace it in one step.

        No other server of the user writes there meanwhile.
        """
        parts = self.new_parts(path)
        with self.explained(path), self.parent(parts, create_parents) as folder:
            if not (lock and self.locks):
                with contextlib.closing(Slot(self, path, folder, parts[-1], None)) as slot:
                    yield slot
                return
            with (
                self.locks.hold(folder, parts[-1]) as held,
                contextlib.closing(Slot(self, path, folder, parts[-1], held)) as slot,
            ):
                yield slot

    def write(
        self,
        path: str,
        chunks: Iterable[bytes],
        *,
        create_parents: bool = True,
        over: bool = True,
        executable: bool = False,
        durable: bool = True,
    ) -> Written:
        """Replaces a whole file atomically: it is the old or the new one, never a part.

        `over`: an existing file may be replaced.
        """
        with self.slot(path, create_parents=create_parents, lock=over) as slot:
            seen = slot.open_existing()
            if seen and not over:
                raise Refused(f"{path} already exists", hint="use another name")
            return slot.put(chunks, seen, executable=executable, durable=durable)

    def make_folder(self, path: str) -> None:
        """Creates a folder and its parents. It may already exist."""
        with self.made_folder(path):
            pass

    @contextlib.contextmanager
    def made_folder(self, path: str) -> Iterator[None]:
        """Creates a folder and its parents; an error removes those that are still empty."""
        if not self.parts(path):
            yield
            return
        parts = self.new_parts(path.rstrip("/"))
        with self.explained(path), self.parent((*parts, ""), True):
            yield

    def status(self, path: str) -> os.stat_result | None:
        """Returns the status of what a write would replace; None if absent. Follows no link."""
        parts = self.parts(path)
        if not parts:
            return os.fstat(self.fd)
        with self.explained(path):
            try:
                with self.parent(parts, False) as folder:
                    return status_of(folder, parts[-1])
            except FileNotFoundError:
                return None

    def new_parts(self, path: str) -> tuple[str, ...]:
        """Splits a path that is to be written, moved or removed; refuses protected names."""
        parts = self.parts(path)
        if not parts or path.endswith("/"):
            raise Refused(f"{shown(path)} names a folder", hint="name a file in it")
        if "\\" in path:
            raise Refused(f"{shown(path)} contains a backslash", hint="use `/` as the separator")
        if any(unicodedata.category(c) in ("Cc", "Cs") for c in path):
            raise Refused(
                f"{shown(path)!r} contains characters that are not allowed in names",
                hint="remove control characters, and use UTF-8",
            )
        if self.guard:
            self.guard.check(parts)
        return parts

    @contextlib.contextmanager
    def parent(self, parts: Sequence[str], create: bool) -> Iterator[int]:
        """Opens the parent folder of the last name, component by component through no link.

        An error removes the folders that were created, unless they are in use.
        """
        folder = os.open(".", FOLDER, dir_fd=self.fd)  # not dup(): that would share its position
        created: list[tuple[int, str]] = []
        try:
            for at, name in enumerate((*parts[:-1], None)):
                if self.guard:
                    self.guard.scan(folder, parts[:at])
                if name is None:
                    break
                if create:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(name, dir_fd=folder)
                        created.append((os.dup(folder), name))
                inner = step(folder, name, FOLDER, "/".join(parts[: at + 1]))
                os.close(folder)
                folder = inner
                if self.guard:
                    self.guard.check_file(os.fstat(folder), "/".join(parts[: at + 1]))
            yield folder
        except BaseException:
            for above, name in reversed(created):
                with contextlib.suppress(OSError):
                    os.rmdir(name, dir_fd=above)
            raise
        finally:
            os.close(folder)
            for above, _ in created:
                os.close(above)

    @contextlib.contextmanager
    def explained(self, path: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if not os.fstat(self.fd).st_nlink:
                raise Refused(
                    f"the workspace {self.path} was removed",
                    hint="start a new session, even if the folder was created again",
                ) from None
            raise refused(error, shown(path)) from None


class Slot:
    """A name in an open folder of the workspace; `lock` is held while it is open."""

    def __init__(
        self, root: ConfinedRoot, path: str, folder: int, name: str, lock: HeldLock | None
    ) -> None:
        self._root, self._path = root, path
        self._folder, self._name = folder, name
        self._lock = lock
        self._seen: list[ObservedFile] = []

    def close(self) -> None:
        for seen in self._seen:
            os.close(seen.file)

    def open_existing(self) -> ObservedFile | None:
        """Opens the existing file that is to be replaced; None if there is none."""
        before = status_of(self._folder, self._name)
        if before is None:
            return None
        if stat.S_ISLNK(before.st_mode):
            raise is_link(self._path, os.readlink(self._name, dir_fd=self._folder))
        if not stat.S_ISREG(before.st_mode):
            raise not_a_file(self._path, before.st_mode)
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
        seen = ObservedFile(step(self._folder, self._name, flags, self._path))
        self._seen.append(seen)
        if not stat.S_ISREG(seen.status.st_mode):
            raise not_a_file(self._path, seen.status.st_mode)
        if self._root.guard:
            self._root.guard.check_file(seen.status, self._path)
        if seen.status.st_nlink > 1:
            raise Refused(
                f"{self._path} is one of {seen.status.st_nlink} hard links to one file: the others "
                "may be outside the workspace",
                hint="write a new file, or break the link with a copy",
            )
        return seen

    def put(
        self,
        chunks: Iterable[bytes],
        seen: ObservedFile | None,
        *,
        is_unchanged: Callable[[], bool] | None = None,
        executable: bool = False,
        durable: bool = True,
    ) -> Written:
        """Writes the file in place of `seen`; `is_unchanged` checks that it is still the same."""
        mode = 0o600 if seen else 0o777 if executable else 0o666
        unnamed = self._root.has_unnamed
        with (
            self._drafts(seen) as folder,
            DraftFile(folder, self._folder, mode, unnamed=unnamed, lock=self._lock) as draft,
        ):
            size = draft.fill(chunks)
            if seen:
                draft.resemble(seen.status)
            if durable:
                os.fsync(draft.file)
            if seen:
                draft.replace(self._name, seen, is_unchanged or seen.is_unchanged)
            else:
                draft.create(self._name)
            if durable:
                os.fsync(self._folder)
        return Written(seen is None, size)

    @contextlib.contextmanager
    def _drafts(self, seen: ObservedFile | None) -> Iterator[int]:
        """Yields the folder for a draft.

        A draft that replaces another file has a temporary name, which should not be visible in the
        workspace, especially not to git.
        """
        if seen is None or self._root.locks is None:
            yield self._folder
            return
        drafts = self._root.locks.open_drafts()
        try:
            yield drafts if on_one_mount(drafts, self._folder) else self._folder
        finally:
            os.close(drafts)
