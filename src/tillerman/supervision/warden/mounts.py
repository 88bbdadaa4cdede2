"""Mounts that make protected files read-only and hide denied files from a program.

They exist only in the keeper's mount namespace: nothing is written to the workspace, and processes
outside see the files unchanged. The program loses the capabilities that could undo them; the keeper
has them, to mount again after a process outside replaced a file by a rename.

A plan is plain data for marshal: a list of (folder, pinned, readonly, hidden). `pinned` paths are
bind-mounted onto themselves, so that they cannot be renamed; `readonly` ones cannot be written;
`hidden` ones can be neither read nor written. Paths that do not exist are left out.
"""

# pathlib and contextlib would cost every start some milliseconds

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Tree = tuple[bytes, Sequence[bytes], Sequence[bytes], Sequence[bytes]]
    Plan = Sequence[Tree]
    Failures = list[tuple[bytes, str]]  # path and reason

# The same numbers on every machine, as for all system calls since Linux 5.1.
_OPEN_TREE, _MOVE_MOUNT, _FSOPEN, _FSCONFIG, _FSMOUNT, _MOUNT_SETATTR = 428, 429, 430, 431, 432, 442
_AT_EMPTY_PATH, _AT_RECURSIVE = 0x1000, 0x8000
_OPEN_TREE_CLONE, _CLOEXEC = 1, 0o2000000
_FROM_EMPTY_PATH, _TO_EMPTY_PATH = 0x4, 0x40
_READ_ONLY, _NO_SETUID, _NO_DEVICES, _NO_EXEC = 1, 2, 4, 8
_FSCONFIG_STRING, _FSCONFIG_CREATE = 1, 6

# Each of these can bypass a mount: by unmounting, through files of another process, raw devices,
# the kernel itself, or file handles.
DROPPED = (
    2,  # DAC_READ_SEARCH: open_by_handle_at
    16,  # SYS_MODULE
    17,  # SYS_RAWIO
    19,  # SYS_PTRACE: processes with more capabilities; tracing own children needs none
    21,  # SYS_ADMIN
    22,  # SYS_BOOT: kexec
    27,  # MKNOD
    39,  # BPF
)
_PR_CAPBSET_READ, _PR_CAPBSET_DROP = 23, 24
_PR_CAP_AMBIENT, _AMBIENT_LOWER = 47, 3
_CAPABILITY_VERSION_3 = 0x20080522

_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_NODE = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC

_STATX_MNT_ID = 0x1000
_STATX = struct.Struct("=I140x8s")  # its mask, and the mount id

_libc = ctypes.CDLL(None, use_errno=True)
_statx = getattr(_libc, "statx", None)  # glibc 2.28, musl 1.2


class Mounts:
    """The mounts of one keeper. Use it in that keeper's mount namespace."""

    def __init__(self) -> None:
        self._folders: dict[bytes, int] = {}  # held open, so that a moved folder is still the same

    def apply(self, plan: Plan) -> Failures:
        """Mounts what is not mounted yet. Returns path and reason of each failure."""
        failed: Failures = []
        for folder, pinned, readonly, hidden in plan:
            try:
                root = self._root(folder)
            except OSError as error:
                failed.append((folder, error.strerror or ""))
                continue
            for paths, mount in ((pinned, _pin), (readonly, _make_readonly), (hidden, _hide)):
                for path in paths:
                    try:
                        _mount_once(root, path, mount)
                    except FileNotFoundError:
                        continue
                    except OSError as error:
                        failed.append((folder + b"/" + path, error.strerror or ""))
        return failed

    def _root(self, folder: bytes) -> int:
        if folder not in self._folders:
            self._folders[folder] = os.open(folder, _FOLDER)
        return self._folders[folder]


def refusal() -> str | None:
    """Returns why this kernel cannot do it. Call it in a separate mount namespace."""
    try:
        tree = _checked(_call(_OPEN_TREE, -100, b"/", _OPEN_TREE_CLONE | _CLOEXEC))
        _set_attributes(tree, _READ_ONLY)
        os.close(tree)
    except OSError as error:
        return f"the kernel cannot clone mounts: {error.strerror}"
    return None


def drop_capabilities(*, later: bool = False) -> None:
    """Drops the capabilities that could undo the mounts.

    Runs in the child right before exec; with `later`, in a keeper whose children lose them by exec.
    """
    for number in DROPPED:
        if _libc.prctl(_PR_CAPBSET_READ, number, 0, 0, 0) == 1:
            _checked(_libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0))
        _libc.prctl(_PR_CAP_AMBIENT, _AMBIENT_LOWER, number, 0, 0)
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    _checked(_libc.capset(header, _without_dropped(header, (2,) if later else (0, 1, 2))))


def _without_dropped(header: bytes, kinds: tuple[int, ...]) -> bytes:
    """`kinds`: effective, permitted, inheritable."""
    held = ctypes.create_string_buffer(24)
    _checked(_libc.capget(header, held))
    words = list(struct.unpack("=6I", held.raw))
    for number in DROPPED:
        for kind in kinds:
            words[3 * (number // 32) + kind] &= ~(1 << number % 32)
    return struct.pack("=6I", *words)


def _mount_once(root: int, path: bytes, mount: Callable[[int], None]) -> None:
    """Opens the path component by component: no link is followed."""
    folder = os.dup(root)
    try:
        *parents, name = path.split(b"/")
        for parent in parents:
            following = os.open(parent, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = following
        node = os.open(name, _NODE, dir_fd=folder)
        try:
            if stat.S_ISLNK(os.fstat(node).st_mode):
                raise OSError(errno.ELOOP, "it is a symbolic link")
            if _mount_id(node) == _mount_id(folder):
                mount(node)
        finally:
            os.close(node)
    finally:
        os.close(folder)


def _pin(node: int) -> None:
    _move(_clone(node), node)


def _make_readonly(node: int) -> None:
    tree = _clone(node)
    _set_attributes(tree, _READ_ONLY)
    _move(tree, node)


def _hide(node: int) -> None:
    """Hides a node: a folder becomes empty, a file a device that even root cannot open."""
    if stat.S_ISDIR(os.fstat(node).st_mode):
        _move(_empty_folder(), node)
        return
    null = os.open("/dev/null", _NODE)
    try:
        tree = _clone(null)
    finally:
        os.close(null)
    _set_attributes(tree, _READ_ONLY | _NO_SETUID | _NO_DEVICES | _NO_EXEC)
    _move(tree, node)


def _empty_folder() -> int:
    context = _checked(_call(_FSOPEN, b"tmpfs", 1))
    try:
        for key, value in ((b"size", b"4k"), (b"mode", b"0555")):
            _checked(_call(_FSCONFIG, context, _FSCONFIG_STRING, key, value, 0))
        _checked(_call(_FSCONFIG, context, _FSCONFIG_CREATE, None, None, 0))
        attributes = _READ_ONLY | _NO_SETUID | _NO_DEVICES | _NO_EXEC
        return _checked(_call(_FSMOUNT, context, 1, attributes))
    finally:
        os.close(context)


def _clone(node: int) -> int:
    flags = _OPEN_TREE_CLONE | _CLOEXEC | _AT_EMPTY_PATH | _AT_RECURSIVE
    return _checked(_call(_OPEN_TREE, node, b"", flags))


def _set_attributes(tree: int, attributes: int) -> None:
    wanted = struct.pack("=QQQQ", attributes, 0, 0, 0)
    flags = _AT_EMPTY_PATH | _AT_RECURSIVE
    _checked(_call(_MOUNT_SETATTR, tree, b"", flags, wanted, len(wanted)))


def _move(tree: int, onto: int) -> None:
    try:
        flags = _FROM_EMPTY_PATH | _TO_EMPTY_PATH
        _checked(_call(_MOVE_MOUNT, tree, b"", onto, b"", flags))
    finally:
        os.close(tree)


def _mount_id(number: int) -> bytes:
    answer = ctypes.create_string_buffer(256)
    if _statx and _statx(number, b"", _AT_EMPTY_PATH, _STATX_MNT_ID, answer) == 0:
        mask, found = _STATX.unpack_from(answer)
        if mask & _STATX_MNT_ID:
            return bytes(found)
    info = os.open(f"/proc/self/fdinfo/{number}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        for line in os.read(info, 4096).splitlines():
            if line.startswith(b"mnt_id:"):
                return line
    finally:
        os.close(info)
    raise OSError(errno.ENOSYS, "the kernel does not report mount ids")


def _call(number: int, *arguments: int | bytes | None) -> int:
    given = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    return int(_libc.syscall(ctypes.c_long(number), *given))


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
