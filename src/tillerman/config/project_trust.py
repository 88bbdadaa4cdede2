"""Project trust: whether the user trusted a project's `.tillerman/`, identified by content hash.

The files are read once into memory, so that the hashed content is the content in use. The trust
record is stored in the user's state folder, so that no file of a repository can grant trust.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from msgspec import Struct, field

from tillerman.core.errors import ConfigError
from tillerman.paths import Paths, private_folder, write_whole

if TYPE_CHECKING:
    import hashlib

FOLDER = ".tillerman"
_MOST_FILES = 2_000  # including folders
_DEEPEST = 32  # nesting depth
_MOST_BYTES = 16 << 20

TrustState = Literal["absent", "trusted", "untrusted", "changed"]


class ProjectFolder(Struct, frozen=True):
    """Snapshot of a project's `.tillerman/` folder."""

    project: Path
    files: Mapping[str, bytes] = field(default_factory=dict)  # by path relative to the folder
    scripts: frozenset[str] = frozenset()  # the executable files among them
    others: Mapping[str, str] = field(default_factory=dict)  # symlinks, devices etc., not followed

    @property
    def path(self) -> Path:
        return self.project / FOLDER

    @property
    def is_real(self) -> bool:
        """False if `.tillerman` is a symlink or not a folder."""
        return "." not in self.others

    @property
    def hash(self) -> str:
        digest = _sha256(b"tillerman trust 1\n")
        rows = [
            (name, b"script" if name in self.scripts else b"file", content)
            for name, content in self.files.items()
        ]
        rows += [(name, b"other", os.fsencode(what)) for name, what in self.others.items()]
        for name, kind, content in sorted(rows):
            digest.update(b"%b %d %d\n" % (kind, len(os.fsencode(name)), len(content)))
            digest.update(os.fsencode(name) + content)
        return digest.hexdigest()


def find_project(cwd: Path) -> Path | None:
    """The nearest folder with a `.tillerman/`, from `cwd` up to the repository root.

    Outside a repository only `cwd` is checked, since parent folders may belong to other users.
    """
    cwd = cwd.absolute()
    chain = [cwd, *cwd.parents]
    root = next((at for at, folder in enumerate(chain) if _is_repository(folder)), 0)
    return next((folder for folder in chain[: root + 1] if _is_there(folder / FOLDER)), None)


def repository(cwd: Path) -> Path | None:
    """Root of the repository that contains `cwd`, or None."""
    return next((folder for folder in (cwd, *cwd.parents) if _is_repository(folder)), None)


def _is_repository(folder: Path) -> bool:
    """An empty `.git` does not count: some agents' sandboxes leave one where they mask it."""
    git = folder / ".git"
    return git.is_file() or (git / "HEAD").exists()


def project_folder(paths: Paths, cwd: Path) -> ProjectFolder | None:
    """Reads the project folder of `cwd`; ignores TILLERMAN_HOME, even if named `.tillerman`."""
    project = find_project(cwd)
    return read_folder(project) if project and project / FOLDER != paths.config else None


def read_folder(project: Path) -> ProjectFolder | None:
    """Reads the `.tillerman/` of a project; None if there is none."""
    project = project.absolute()
    path = project / FOLDER
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return ProjectFolder(project, others={".": "not a folder"}) if _is_there(path) else None
    try:
        return _gathered(project, descriptor)
    except OSError as error:
        raise ConfigError(
            f"{path / str(error.filename or '')} cannot be read: {error.strerror}",
            hint="fix its permissions, or move it away",
        ) from None
    finally:
        os.close(descriptor)


def trust_state(paths: Paths, folder: ProjectFolder | None) -> TrustState:
    if folder is None:
        return "absent"
    try:
        trusted = _record(paths, folder.project).read_text().split("\n", 1)[0]
    except (FileNotFoundError, NotADirectoryError):
        return "untrusted"
    return "trusted" if trusted == folder.hash else "changed"


def trust(paths: Paths, folder: ProjectFolder) -> None:
    """Trusts the snapshot that was read and shown to the user, not what is on disk now."""
    if not folder.is_real:
        raise ConfigError(f"{folder.path} is not a folder", hint="replace it with a real folder")
    private_folder(paths.state)
    record = private_folder(paths.trust) / _record(paths, folder.project).name
    write_whole(record, f"{folder.hash}\n{os.path.realpath(folder.project)}\n".encode())


def untrust(paths: Paths, project: Path) -> bool:
    """Removes the trust record; False if there was none."""
    try:
        _record(paths, project).unlink()
    except FileNotFoundError:
        return False
    return True


def _record(paths: Paths, project: Path) -> Path:
    return paths.trust / _sha256(os.fsencode(os.path.realpath(project))).hexdigest()[:32]


class _Found(NamedTuple):
    name: str
    content: bytes | None
    what: str  # "script", "file", "folder", or a description of another type


def _gathered(project: Path, descriptor: int) -> ProjectFolder:
    found: list[_Found] = []
    room = _MOST_BYTES
    for count, item in enumerate(_walk(descriptor, ""), 1):
        room -= len(item.content or b"")
        if room < 0 or count > _MOST_FILES or item.name.count("/") > _DEEPEST:
            raise ConfigError(
                f"{project / FOLDER} is too large to be trusted",
                hint=f"keep it under {_MOST_FILES} files and folders, {_DEEPEST} folders deep,"
                f" and {_MOST_BYTES >> 20} MB",
            )
        if item.what != "folder":
            found.append(item)
    return ProjectFolder(
        project,
        files={name: content for name, content, _ in found if content is not None},
        scripts=frozenset(name for name, _, what in found if what == "script"),
        others={name: what for name, content, what in found if content is None},
    )


def _walk(descriptor: int, prefix: str) -> Iterator[_Found]:
    """Walks by file descriptor, so that a folder cannot be replaced with a symlink meanwhile."""
    with os.scandir(descriptor) as entries:
        names = sorted(entry.name for entry in entries)
    for name in names:
        try:
            yield from _one(descriptor, name, prefix)
        except FileNotFoundError:
            continue  # removed meanwhile, as an editor's temporary files are
        except OSError as error:
            if error.filename == name:
                error.filename = prefix + name
            raise


def _one(descriptor: int, name: str, prefix: str) -> Iterator[_Found]:
    status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
    if stat.S_ISLNK(status.st_mode):
        target = os.readlink(name, dir_fd=descriptor)
        yield _Found(prefix + name, None, f"link to {target}")
    elif stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode):
        yield from _opened(descriptor, name, prefix)
    else:
        yield _Found(prefix + name, None, stat.filemode(status.st_mode)[0])


def _opened(descriptor: int, name: str, prefix: str) -> Iterator[_Found]:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    inner = os.open(name, flags, dir_fd=descriptor)
    try:
        mode = os.fstat(inner).st_mode
        if stat.S_ISDIR(mode):
            yield _Found(f"{prefix}{name}/", None, "folder")
            yield from _walk(inner, f"{prefix}{name}/")
            return
        with os.fdopen(os.dup(inner), "rb") as file:
            content = file.read(_MOST_BYTES + 1)
        yield _Found(prefix + name, content, "script" if mode & 0o111 else "file")
    finally:
        os.close(inner)


def _is_there(path: Path) -> bool:
    try:
        path.lstat()
    except OSError:
        return False
    return True


def _sha256(data: bytes) -> hashlib._Hash:
    import hashlib  # lazy: loads OpenSSL, not needed without a project folder

    return hashlib.sha256(data)
