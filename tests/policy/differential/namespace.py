"""A private root of our own: namespaces, a small tmpfs, and the system's programs read-only."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

_LIBC = ctypes.CDLL(None, use_errno=True)
_NEWNS, _NEWUTS, _NEWIPC, _NEWUSER, _NEWPID, _NEWNET = (
    *(0x00020000, 0x04000000, 0x08000000),
    *(0x10000000, 0x20000000, 0x40000000),
)
_RDONLY, _NOSUID, _NODEV, _REMOUNT, _BIND, _REC, _PRIVATE, _STRICTATIME = (
    *(1, 2, 4, 32, 4096, 16384, 1 << 18, 1 << 24),
)
_DETACH, _NOATIME = 2, 1024
_SET_DUMPABLE = 4
_DROP_BOUNDING = 24
_NOBODY = 65534
_SYSTEM = ("usr", "bin", "sbin", "lib", "lib64", "lib32", "libx32")
_DEVICES = ("null", "zero", "full", "random", "urandom")


def enter_user_and_mounts() -> None:
    """A user and a mount namespace, in which this process may mount."""
    uid, gid = os.getuid(), os.getgid()
    _call_unshare(_NEWUSER | _NEWNS)
    _map_ids(os.getpid(), uid, gid)
    _mount("none", "/", None, _REC | _PRIVATE)


def enter_all() -> None:
    """All namespaces; the next child is the first process of the new pid namespace."""
    _unshare(_NEWUSER | _NEWNS | _NEWPID | _NEWNET | _NEWIPC | _NEWUTS)
    _mount("none", "/", None, _REC | _PRIVATE)


def mount_tree(path: str) -> None:
    """A tmpfs of our own, where every read shows in a file's atime."""
    _mount("tmpfs", path, "tmpfs", _NOSUID | _NODEV | _STRICTATIME, "size=64m,mode=755")


def enter_root(tree: str) -> None:
    """As the first process of the pid namespace: a root with nothing but programs and the tree."""
    root = "/tmp"
    mount_tree(root)
    for name in _SYSTEM:
        source = Path("/", name)
        if source.is_symlink():
            os.symlink(source.readlink(), f"{root}/{name}")
        elif source.is_dir():
            os.mkdir(f"{root}/{name}")
            _bind(str(source), f"{root}/{name}", read_only=True)
    os.makedirs(f"{root}/etc/alternatives")
    if Path("/etc/alternatives").is_dir():
        _bind("/etc/alternatives", f"{root}/etc/alternatives", read_only=True)
    Path(root, "etc/passwd").write_text(f"root:x:0:0::{tree}/home:/bin/sh\n")
    os.mkdir(f"{root}/dev")
    for name in _DEVICES:
        Path(root, "dev", name).touch()
        _bind(f"/dev/{name}", f"{root}/dev/{name}", read_only=False)
    os.symlink("/proc/self/fd", f"{root}/dev/fd")
    for fd, name in enumerate(("stdin", "stdout", "stderr")):
        os.symlink(f"/proc/self/fd/{fd}", f"{root}/dev/{name}")
    os.mkdir(f"{root}/dev/pts")
    _mount("devpts", f"{root}/dev/pts", "devpts", _NOSUID, "newinstance,ptmxmode=0666")
    os.symlink("pts/ptmx", f"{root}/dev/ptmx")
    for name in ("proc", "tmp", "stubs", "log", "old"):
        os.mkdir(f"{root}/{name}")
    os.mkdir(f"{root}{tree}")
    _mount("proc", f"{root}/proc", "proc", _NOSUID | _NODEV)
    os.chdir(root)
    if _LIBC.pivot_root(b".", b"old") != 0:
        raise OSError(ctypes.get_errno(), "pivot_root")
    os.chdir("/")
    if _LIBC.umount2(b"/old", _DETACH) != 0:
        raise OSError(ctypes.get_errno(), "umount of the old root")
    os.rmdir("/old")


def seal_root() -> None:
    """Nothing but the tree and /tmp can be written from now on."""
    for path in ("/mnt", "/tmp"):
        mount_tree(path)
    _mount("none", "/", None, _REMOUNT | _BIND | _RDONLY | _NOSUID | _NODEV)


def leave_no_atime(path: str) -> None:
    """In mounts of this process's own: what it reads there does not show."""
    enter_mounts()
    _mount("none", path, None, _REMOUNT | _BIND | _NOSUID | _NODEV | _NOATIME)


def enter_mounts() -> None:
    """A mount namespace of this process's own."""
    _call_unshare(_NEWNS)
    _mount("none", "/", None, _REC | _PRIVATE)


def drop_capabilities() -> None:
    for capability in range(64):
        if _LIBC.prctl(_DROP_BOUNDING, capability, 0, 0, 0) != 0:
            break


def _unshare(flags: int) -> None:
    """Root becomes nobody outside, so that limits on processes count and nothing of it is writable."""
    uid, gid = os.getuid(), os.getgid()
    if uid:
        _call_unshare(flags)
        _map_ids(os.getpid(), uid, gid)
        return
    ready_read, ready_write = os.pipe()
    done_read, done_write = os.pipe()
    parent = os.getpid()
    if (child := os.fork()) == 0:
        os.close(ready_write)
        try:
            if os.read(ready_read, 1):
                _map_ids(parent, _NOBODY, _NOBODY)
                os.write(done_write, b"y")
        finally:
            os._exit(0)
    try:
        _call_unshare(flags)
        os.write(ready_write, b"x")
    finally:
        os.close(ready_write)  # without namespaces the child ends, too
        os.waitpid(child, 0)
    os.set_blocking(done_read, False)
    if not os.read(done_read, 1):
        raise OSError("user ids could not be mapped")
    for fd in (ready_read, done_read, done_write):
        os.close(fd)
    os.setgid(0)
    os.setuid(0)
    _LIBC.prctl(_SET_DUMPABLE, 1, 0, 0, 0)  # another uid took it: our children could not be read


def _call_unshare(flags: int) -> None:
    if _LIBC.unshare(flags) != 0:
        raise OSError(ctypes.get_errno(), "unshare")


def _map_ids(pid: int, uid: int, gid: int) -> None:
    Path(f"/proc/{pid}/uid_map").write_text(f"0 {uid} 1\n")
    Path(f"/proc/{pid}/setgroups").write_text("deny")
    Path(f"/proc/{pid}/gid_map").write_text(f"0 {gid} 1\n")


def bind(source: str, target: str) -> None:
    _bind(source, target, read_only=False)


def _bind(source: str, target: str, *, read_only: bool) -> None:
    _mount(source, target, None, _BIND | _REC)
    if read_only:
        _mount("none", target, None, _REMOUNT | _BIND | _RDONLY | _locked_flags(target))


def _locked_flags(path: str) -> int:
    """A remount must keep what the mount outside forbids."""
    flags = os.statvfs(path).f_flag
    kept = os.ST_NOSUID | os.ST_NODEV | os.ST_NOEXEC | os.ST_NOATIME | os.ST_NODIRATIME
    return flags & kept


def _mount(source: str, target: str, kind: str | None, flags: int, data: str = "") -> None:
    done = _LIBC.mount(
        *(source.encode(), target.encode(), kind.encode() if kind else None),
        *(ctypes.c_ulong(flags), data.encode()),
    )
    if done != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"mount of {target}: {os.strerror(number)}")
