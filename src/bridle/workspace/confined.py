"""The workspace as a folder that no path leads out of: the one way in for every file tool.

The folder is opened once, and all else beneath that descriptor. What is read may pass through links
that stay inside. What is written passes through none: a link's target is another name, and the
caller should have said it. No path is looked at first and opened by name later, so there is nothing
to swap in between.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import posixpath
import secrets
import stat
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Self

from bridle.workspace.file_names import shown
from bridle.workspace.guard import Guard
from bridle.workspace.refusal import Refused, refused

_LONGEST, _LONGEST_NAME = 4_000, 255  # bytes; the kernel takes 4,095
_DEEPEST = 200
_OPENAT2 = 437  # on every architecture
_NO_MAGICLINKS, _BENEATH = 0x02, 0x08
_TRIES = 64  # while others rename about
_ALWAYS = os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
TEMPORARY = ".bridle-writes-"

_libc = ctypes.CDLL(None, use_errno=True)


class _How(ctypes.Structure):
    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


class Written(NamedTuple):
    created: bool
    size: int


class Root:
    """A workspace. `walk`: with plain means alone, as on old kernels; then no link is followed."""

    def __init__(self, path: Path, *, walk: bool = False, guarded: bool = True) -> None:
        self.path = Path(os.path.abspath(path))  # noqa: PTH100 -- links stay as they are written
        self._spellings = (str(self.path), str(self.path.resolve()))
        try:
            self.fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise refused(error, str(path)) from None
        self.walks = walk or not _has_openat2(self.fd)
        self._unnamed = not walk and Path("/proc/self/fd").exists()
        self._guard = Guard() if guarded else None
        if self._guard:
            self._guard.look(self.fd, ())

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
        if self._guard:
            self._guard.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # names

    def parts(self, path: str) -> tuple[str, ...]:
        """The names that lead to it from the root, by text alone; none for the root itself."""
        if "\0" in path:
            raise Refused("a path holds a NUL character", hint="leave it out")
        try:
            length = len(os.fsencode(path))
        except UnicodeEncodeError:
            raise Refused(f"{path!r} cannot be a file's name", hint="use UTF-8 text") from None
        told = shown(path)
        if not path:
            raise Refused("a path is empty", hint="`.` is the workspace itself")
        if path.startswith(("~", "file://")):
            raise Refused(
                f"{told} is not a path here: nothing is expanded",
                hint=f"paths begin at {self.path}; put `./` before a name that begins so",
            )
        if path.startswith("/"):
            path = self._inner(posixpath.normpath(path), told)
        parts = [part for part in posixpath.normpath(path).split("/") if part != "."]
        if parts[:1] == [".."]:
            raise self._outside(told)
        if length > _LONGEST or len(parts) > _DEEPEST:
            raise Refused(f"{told[:80]}… is too long a path", hint="use a shorter one")
        for part in parts:
            if len(os.fsencode(part)) > _LONGEST_NAME:
                raise Refused(f"{shown(part)[:80]}… is too long a name", hint="use a shorter one")
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
        return Refused(f"{told} lies outside the workspace", hint=f"stay in {self.path}")

    # reading

    def open_file(self, path: str) -> int:
        """A regular file's descriptor, to read. The caller closes it."""
        parts = self.parts(path)
        if not parts or path.endswith("/"):
            raise Refused(f"{shown(path)} names a folder", hint="name a file")
        with self._words(path):
            opened = self._beneath(parts, os.O_RDONLY)
        mode = os.fstat(opened).st_mode
        if not stat.S_ISREG(mode):
            os.close(opened)
            raise _not_a_file(shown(path), mode)
        return opened

    def open_folder(self, path: str) -> int:
        parts = self.parts(path)
        with self._words(path):
            return self._beneath(parts, os.O_RDONLY | os.O_DIRECTORY)

    def _beneath(self, parts: Sequence[str], flags: int) -> int:
        if self.walks:
            return _walk(self.fd, parts, flags)
        resolve = _BENEATH | _NO_MAGICLINKS
        return _openat2(self.fd, "/".join(parts) or ".", flags, resolve)

    # writing

    def write(
        self,
        path: str,
        chunks: Iterable[bytes],
        *,
        create_parents: bool = True,
        over: bool = True,
        executable: bool = False,
        durable: bool = True,
        unchanged: Callable[[os.stat_result | None], None] | None = None,
    ) -> Written:
        """Puts a whole file in place at once: it is the old one or the new one, never a part.

        `over`: may take the place of another. `unchanged` is given the file that is there now, and
        raises when that is not what the caller thinks it is.
        """
        parts = self.parts(path)
        self._check_new_name(path, parts)
        with self._words(path), self._parent(parts, create_parents) as folder:
            name = parts[-1]
            before = _status(folder, name)
            if before is not None:
                self._check_replaced(path, folder, name, before, over)
            if unchanged:
                unchanged(before)
            mode = 0o600 if before else 0o777 if executable else 0o666
            with _Draft(folder, mode, unnamed=self._unnamed) as draft:
                size = _fill(draft.file, chunks)
                if before is not None:
                    _like(draft.file, before)
                if durable:
                    os.fsync(draft.file)
                if unchanged:
                    unchanged(_status(folder, name))
                draft.put(name, over=before is not None)
                if durable:
                    os.fsync(folder)
        return Written(before is None, size)

    def make_folder(self, path: str) -> None:
        """With all that are above it. It may be there already."""
        parts = self.parts(path)
        if parts:
            self._check_new_name(path.rstrip("/"), parts)
            with self._words(path), self._parent((*parts, ""), True):
                pass

    def status(self, path: str) -> os.stat_result | None:
        """Of what a write would replace; None where nothing is. Follows no link."""
        parts = self.parts(path)
        if not parts:
            return os.fstat(self.fd)
        with self._words(path):
            try:
                with self._parent(parts, False) as folder:
                    return _status(folder, parts[-1])
            except FileNotFoundError:
                return None

    def _check_new_name(self, path: str, parts: Sequence[str]) -> None:
        if not parts or path.endswith("/"):
            raise Refused(f"{shown(path)} names a folder", hint="name a file in it")
        if "\\" in path:
            raise Refused(f"{shown(path)} holds a backslash", hint="folders are parted by `/`")
        if any(unicodedata.category(c) in ("Cc", "Cs") for c in path):
            raise Refused(
                f"{shown(path)!r} holds characters that names should not have",
                hint="leave control characters out, and write UTF-8",
            )
        if self._guard:
            self._guard.check(parts)

    def _check_replaced(
        self, path: str, folder: int, name: str, before: os.stat_result, over: bool
    ) -> None:
        if stat.S_ISLNK(before.st_mode):
            raise _link(path, os.readlink(name, dir_fd=folder))
        if not stat.S_ISREG(before.st_mode):
            raise _not_a_file(path, before.st_mode)
        if self._guard:
            self._guard.check_file(before, path)
        if not over:
            raise Refused(f"{path} is there already", hint="take another name")
        if before.st_nlink > 1:
            raise Refused(
                f"{path} is one of {before.st_nlink} hard links to one file: the others may lie "
                "outside the workspace",
                hint="write a new file, or break the link with a copy",
            )

    @contextlib.contextmanager
    def _parent(self, parts: Sequence[str], create: bool) -> Iterator[int]:
        """The folder that the last name is in, come to one by one through no link."""
        folder = os.open(".", _FOLDER, dir_fd=self.fd)  # not a duplicate: that shares its position
        try:
            for at, name in enumerate((*parts[:-1], None)):
                if self._guard:
                    self._guard.look(folder, parts[:at])
                if name is None:
                    break
                if create:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(name, dir_fd=folder)
                inner = _step(folder, name, _FOLDER, "/".join(parts[: at + 1]))
                os.close(folder)
                folder = inner
                if self._guard:
                    self._guard.check_file(os.fstat(folder), "/".join(parts[: at + 1]))
            yield folder
        finally:
            os.close(folder)

    @contextlib.contextmanager
    def _words(self, path: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if not os.fstat(self.fd).st_nlink:
                raise Refused(
                    f"the workspace {self.path} was removed",
                    hint="a folder of the same name is another one: begin a new session in it",
                ) from None
            raise refused(error, shown(path)) from None


def open_outside(path: str) -> int:
    """A regular file by its absolute path, come to through no link: what was judged by that path is
    what is opened."""
    parts = [part for part in posixpath.normpath(path).split("/") if part]
    root = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        opened = _walk(root, parts, os.O_RDONLY)
    except OSError as error:
        raise refused(error, shown(path)) from None
    finally:
        os.close(root)
    mode = os.fstat(opened).st_mode
    if not stat.S_ISREG(mode):
        os.close(opened)
        raise _not_a_file(shown(path), mode)
    return opened


def _has_openat2(folder: int) -> bool:
    """A kernel may lack it, and a container may forbid it."""
    try:
        os.close(_openat2(folder, ".", os.O_PATH, _BENEATH | _NO_MAGICLINKS))
    except OSError as error:
        if error.errno in (errno.ENOSYS, errno.EPERM):
            return False
        raise
    return True


def _openat2(folder: int, path: str, flags: int, resolve: int) -> int:
    how = _How(flags | _ALWAYS if not flags & os.O_PATH else flags | os.O_CLOEXEC, 0, resolve)
    name = os.fsencode(path)
    number = 0
    for _ in range(_TRIES):
        opened: int = _libc.syscall(
            _OPENAT2, folder, name, ctypes.byref(how), ctypes.c_size_t(ctypes.sizeof(how))
        )
        if opened >= 0:
            return opened
        number = ctypes.get_errno()
        if number not in (errno.EAGAIN, errno.EINTR):
            break
    raise OSError(number, os.strerror(number), path)


def _walk(folder: int, parts: Sequence[str], flags: int) -> int:
    """Name by name, each in the folder before it, through no link."""
    here = os.open(".", _FOLDER, dir_fd=folder) if not parts else os.dup(folder)
    for at, name in enumerate(parts, 1):
        last = at == len(parts)
        kind = flags | _ALWAYS if last else os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
        try:
            here, above = _step(here, name, kind, "/".join(parts[:at])), here
        except BaseException:
            os.close(here)
            raise
        os.close(above)
    return here


def _step(folder: int, name: str, flags: int, told: str) -> int:
    try:
        return os.open(name, flags | os.O_NOFOLLOW, dir_fd=folder)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENOTDIR):
            raise
        try:
            target = os.readlink(name, dir_fd=folder)
        except OSError:
            raise error from None  # no link, or no longer
        raise _link(told, target) from None


def _status(folder: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _fill(file: int, chunks: Iterable[bytes]) -> int:
    size = 0
    for chunk in chunks:
        left = memoryview(chunk)
        while left:
            left = left[os.write(file, left) :]
        size += len(chunk)
    return size


def _like(file: int, before: os.stat_result) -> None:
    """Owner and mode of the one it replaces; set-user-id does not outlive a change."""
    now = os.fstat(file)
    if (now.st_uid, now.st_gid) != (before.st_uid, before.st_gid):
        with contextlib.suppress(PermissionError):
            os.fchown(file, before.st_uid, before.st_gid)
    os.fchmod(file, stat.S_IMODE(before.st_mode) & 0o777)


def _unnamed(folder: int, mode: int) -> int:
    """-1 where the file system does not have them."""
    try:
        return os.open(".", os.O_WRONLY | os.O_CLOEXEC | os.O_TMPFILE, mode, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL):
            return -1
        raise


class _Draft:
    """A new file in a folder: without a name, so that a kill leaves nothing, where that can be."""

    def __init__(self, folder: int, mode: int, *, unnamed: bool) -> None:
        self._folder = folder
        self._temporary = ""
        self.file = _unnamed(folder, mode) if unnamed else -1
        self._unnamed = f"/proc/self/fd/{self.file}" if self.file >= 0 else ""
        if self.file < 0:
            self._temporary = TEMPORARY + secrets.token_hex(8)
            flags = os.O_WRONLY | os.O_CLOEXEC | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            self.file = os.open(self._temporary, flags, mode, dir_fd=folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.file)
        if self._temporary:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._temporary, dir_fd=self._folder)

    def put(self, name: str, *, over: bool) -> None:
        """In one step: others see what was there before, or all of this."""
        if not over:
            try:
                self._link(name)
            except OSError as error:
                if self._unnamed or error.errno not in (errno.EPERM, errno.EOPNOTSUPP):
                    raise
            else:
                return
            # a file system without links
            if _status(self._folder, name) is not None:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)
        elif self._unnamed:
            temporary = TEMPORARY + secrets.token_hex(8)
            self._link(temporary)
            self._temporary = temporary
        os.rename(self._temporary, name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        self._temporary = ""

    def _link(self, name: str) -> None:
        source = self._unnamed or self._temporary
        os.link(
            source,
            name,
            src_dir_fd=self._folder,
            dst_dir_fd=self._folder,
            follow_symlinks=bool(self._unnamed),  # of /proc, to the file itself
        )


def _link(path: str, target: str) -> Refused:
    return Refused(
        f"{shown(path)} is a link to {shown(target)}",
        hint="use the path that it leads to",
    )


def _not_a_file(path: str, mode: int) -> Refused:
    if stat.S_ISDIR(mode):
        return Refused(f"{shown(path)} is a folder", hint="name a file, or list the folder")
    kinds = (
        (stat.S_ISFIFO, "a pipe"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISCHR, "a device"),
        (stat.S_ISBLK, "a device"),
    )
    kind = next((word for test, word in kinds if test(mode)), "no regular file")
    return Refused(f"{shown(path)} is {kind}", hint="name a regular file")
