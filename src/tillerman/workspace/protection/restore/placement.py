"""Places files in an open folder atomically and without following links."""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

from tillerman.workspace.protection.protected_names import KEPT_FILE, read_file
from tillerman.workspace.protection.protected_state import PathNode, mark_of
from tillerman.workspace.protection.restore.file_flags import make_changeable

_NO_REPLACE, _EXCHANGE = 1, 2  # flags of renameat2
_libc = ctypes.CDLL(None, use_errno=True)


def draft_name() -> str:
    return f".tillerman-restore-{os.urandom(8).hex()}"


def write_draft(folder: int, name: str, node: PathNode) -> os.stat_result:
    """Writes a file or a link as `node` describes it."""
    assert node.content is not None
    if node.kind == "link":
        os.symlink(os.fsdecode(node.content), name, dir_fd=folder)
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    return _write(folder, name, node)


def exchange(one_folder: int, one: str, other_folder: int, other: str) -> bool:
    """Exchanges two names. Returns False if the file system does not support it."""
    return _rename(one_folder, one, other_folder, other, _EXCHANGE)


def rename_to_free_name(folder: int, name: str, to_folder: int, to: str) -> None:
    """Renames without replacing. Raises `FileExistsError` if the name is in use."""
    if not _rename(folder, name, to_folder, to, _NO_REPLACE):
        if status_of(to_folder, to):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        os.rename(name, to, src_dir_fd=folder, dst_dir_fd=to_folder)


def _rename(folder: int, name: str, to_folder: int, to: str, flags: int) -> bool:
    if not _libc.renameat2(folder, os.fsencode(name), to_folder, os.fsencode(to), flags):
        return True
    number = ctypes.get_errno()
    if number in (errno.EINVAL, errno.ENOSYS):
        return False
    raise OSError(number, os.strerror(number))


def replace_content(
    folder: int, name: str, content: bytes, seen: bytes, known: PathNode | None
) -> None:
    """Replaces a file's content `seen` by `content`; reverts if the file changed meanwhile."""
    make_changeable(folder, name)
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    mode = known.mode if known else stat.S_IMODE(status.st_mode)
    owner = known.owner if known else (status.st_uid, status.st_gid)
    node = PathNode("file", mode, owner, status.st_mtime_ns, content, mark_of(status))
    draft = draft_name()
    _write(folder, draft, node)
    try:
        if not exchange(folder, draft, folder, name):
            os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
        elif read_file(folder, draft, KEPT_FILE) != seen:
            exchange(folder, draft, folder, name)
    finally:
        with suppress(OSError):
            os.unlink(draft, dir_fd=folder)


def _write(folder: int, name: str, node: PathNode) -> os.stat_result:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, 0o600, dir_fd=folder), "wb") as out:
        out.write(node.content or b"")
        out.flush()
        with suppress(PermissionError):
            os.fchown(out.fileno(), *node.owner)
        os.fchmod(out.fileno(), node.mode)
        os.utime(out.fileno(), ns=(node.modified, node.modified))
        os.fsync(out.fileno())
        return os.fstat(out.fileno())


def set_folder_mode(folder: int, name: str, node: PathNode) -> None:
    held = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        Path(f"/proc/self/fd/{held}").chmod(node.mode)
        with suppress(PermissionError):
            os.chown(f"/proc/self/fd/{held}", *node.owner)
    finally:
        os.close(held)


def status_of(folder: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return None
