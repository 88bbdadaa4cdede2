"""Builds the bubblewrap command line: only the system, toolchains and workspace are visible.

The order matters: a later mount covers an earlier one.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from tillerman.supervision.isolation.confined_home import GIT_CONFIG
from tillerman.supervision.isolation.readable_system_paths import roots_own, system

FILTER, GIT = 198, 199  # descriptors of the seccomp filter and of the git settings
_PLACES = "/usr/bin:/usr/local/bin:/bin:/run/current-system/sw/bin"  # searched before PATH
_TEMPORARY = 2 * 1024**3  # bytes of memory that /tmp may use

# The C library would obey these in bubblewrap itself, which is not confined.
_OF_THE_LOADER = (
    "LD_", "GCONV_PATH", "GETCONF_DIR", "GLIBC_TUNABLES", "HOSTALIASES", "LOCALDOMAIN", "LOCPATH",
    "MALLOC_", "NIS_PATH", "NLSPATH", "RESOLV_HOST_CONF", "RES_OPTIONS", "TZDIR",
)  # fmt: skip


def find(workspace: Path | None, path: str | None = None) -> Path | None:
    """Returns the resolved path of bwrap, which only root and the user can have written."""
    if path is None:
        path = f"{_PLACES}:{os.environ.get('PATH', '')}"
    for folder in path.split(os.pathsep):
        program = Path(folder) / "bwrap"
        if folder.startswith("/") and program.is_file() and os.access(program, os.X_OK):
            program = program.resolve()
            inside = workspace is not None and program.is_relative_to(workspace)
            if not inside and _safe(program):
                return program
    return None


def _safe(program: Path) -> bool:
    """Rejects paths that others may replace. A sticky folder lets others only add files."""
    for place in (program, *program.parents):
        found = place.stat()
        others = found.st_mode & 0o002 and not (
            stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX
        )
        if others or found.st_uid not in (0, os.geteuid(), 65534):
            return False
    return True


def for_bubblewrap(env: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Splits the variables into those for bubblewrap itself and those only for the command."""
    inner = {name: value for name, value in env.items() if name.startswith(_OF_THE_LOADER)}
    return {name: value for name, value in env.items() if name not in inner}, inner


class ProtectedMounts:
    """Mounts existing protected names read-only.

    Nothing is mounted over a name that does not exist: the mount point would be a file on the real
    disk, visible to git and all other programs.
    """

    def __init__(self, workspace: Path, protected: Sequence[Path]) -> None:
        self._pinned: set[Path] = set()  # parent folders, which must not be renamed
        self._readonly: set[Path] = set()
        self.unheld: list[Path] = []  # absent names, links, and paths that leave the workspace
        for path in protected:
            if not self._add(workspace, path):
                self.unheld.append(path)

    def _add(self, workspace: Path, path: Path) -> bool:
        if not path.is_relative_to(workspace) or path == workspace:
            return False
        parts = path.relative_to(workspace).parts
        place, way = workspace, []
        for part in parts:
            place /= part
            if part == ".." or place.is_symlink():
                return False
            way.append(place)
        if not path.exists():
            return False
        self._pinned.update(way[:-1])
        self._readonly.add(path)
        return True

    def arguments(self) -> Iterator[str]:
        """Yields the mount options.

        A name that is removed meanwhile is skipped, like absent ones.
        """
        mounts = dict.fromkeys(self._pinned, "--bind-try")
        mounts |= dict.fromkeys(self._readonly, "--ro-bind-try")
        for path in sorted(mounts):
            yield from (mounts[path], str(path), str(path))


def arguments(
    program: Path,
    *,
    argv: Sequence[str],
    workspace: Path,
    cwd: Path,
    home: Path,
    readable: Iterable[Path],
    protected: ProtectedMounts,
    inner: Mapping[str, str],
    git: bool,
) -> list[str]:
    return [
        str(program),
        *("--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"),
        *("--unshare-cgroup-try", "--new-session", "--die-with-parent", "--cap-drop", "ALL"),
        *_system(),
        # root still owns root's files, so that a writable core_pattern would be an escape
        *("--proc", "/proc", "--remount-ro", "/proc", "--dev", "/dev"),
        *("--tmpfs", "/run", "--tmpfs", "/var/tmp"),
        *("--size", str(_TEMPORARY), "--tmpfs", "/tmp"),
        *(("--size", str(_TEMPORARY), "--tmpfs", str(home)) if home != Path("/") else ()),
        *(word for path in readable for word in ("--ro-bind", str(path), str(path))),
        *(("--ro-bind-data", str(GIT), str(home / GIT_CONFIG)) if git else ()),
        *("--bind", str(workspace), str(workspace)),
        *protected.arguments(),
        *("--remount-ro", "/", "--chdir", str(cwd)),
        *(word for name, value in inner.items() for word in ("--setenv", name, value)),
        *("--seccomp", str(FILTER), "--", *argv),
    ]


def _system() -> Iterator[str]:
    for path in system():
        if path.is_symlink():
            yield from ("--symlink", str(path.readlink()), str(path))
        else:
            yield from ("--ro-bind", str(path), str(path))
    for path in sorted(roots_own()):
        if path.is_dir():
            yield from ("--tmpfs", str(path))
        else:  # a device node, which does not work there
            yield from ("--ro-bind", "/dev/null", str(path))
