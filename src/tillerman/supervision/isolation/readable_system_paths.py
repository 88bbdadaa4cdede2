"""Paths that a confined command may read and run: the system and the user's toolchains.

All other paths do not exist for it (high) or are inaccessible (medium). Files that only root may
read are left out for root too. Folders that hold keys or private data are never opened, not even
when a folder on PATH lies inside.
"""

# with each command some thousand pairs of paths are compared, which as Path would take 50 ms
# ruff: noqa: PTH110

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from tillerman.core import agent_files
from tillerman.paths import find_paths

SYSTEM = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt",
    "/nix/store", "/nix/var/nix/profiles", "/gnu/store", "/run/current-system",
    "/sys/devices/system", "/sys/fs/cgroup", "/sys/kernel/mm",
)  # fmt: skip
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")

# Relative to the home: files of compilers and interpreters.
_TOOLCHAINS = (
    ".pyenv", ".nvm", ".rbenv", ".asdf", ".volta", ".fnm", ".rustup", ".sdkman", ".ghcup",
    ".juliaup", ".jenv", ".bun/bin", ".deno/bin", ".nix-profile", ".yarn/bin", ".npm-global",
    ".linuxbrew", "miniconda3", "miniforge3", "anaconda3",
    ".cargo/bin", ".cargo/env", ".cargo/registry", ".cargo/git", "go/bin", "go/pkg",
    ".local/bin", ".local/lib", ".local/pipx", ".local/share/pipx", ".local/share/uv",
    ".local/share/mise", ".local/share/fnm", ".local/share/pnpm",
)  # fmt: skip
# Where toolchains find their files when HOME is different.
TOOLCHAIN_VARIABLES = {
    "PYENV_ROOT": ".pyenv", "NVM_DIR": ".nvm", "RBENV_ROOT": ".rbenv", "ASDF_DATA_DIR": ".asdf",
    "VOLTA_HOME": ".volta", "RUSTUP_HOME": ".rustup", "CARGO_HOME": ".cargo",
    "PYTHONUSERBASE": ".local", "GOMODCACHE": "go/pkg/mod", "MISE_DATA_DIR": ".local/share/mise",
}  # fmt: skip
# Relative to the home: keys, private data and state. A folder that contains one of these is not
# opened either.
_NEVER = (
    ".ssh", ".gnupg", ".aws", ".azure", ".config", ".kube", ".docker", ".netrc", ".npmrc",
    ".pypirc", ".git-credentials", ".password-store", ".mozilla", ".thunderbird",
    ".local/state", ".local/share/keyrings", ".cargo/credentials", ".cargo/credentials.toml",
    ".bash_history", *sorted(agent_files.PRIVATE),
)  # fmt: skip
_PROGRAMS = ("bin", "sbin", "shims")  # their parent folder holds the files they need


def system() -> list[Path]:
    return [path for name in SYSTEM if (path := Path(name)).exists()]


def toolchains(home: Path, path: str, workspace: Path) -> list[Path]:
    """Returns toolchains in the home and on PATH, but none inside or around the workspace."""
    closed = [*never(home), str(workspace)]
    wanted = {f"{home}/{name}" for name in _TOOLCHAINS}
    for word in path.split(os.pathsep):
        if word.startswith("/"):
            folder = os.path.normpath(word)
            prefix, _, name = folder.rpartition("/")
            wanted.add(prefix if name in _PROGRAMS and _apart(prefix, closed) else folder)
    found: list[str] = []
    for folder in sorted(wanted):
        if (
            os.path.exists(folder)
            and not any(holds(one, folder) for one in (*SYSTEM, *found))
            and _apart(folder, closed)
            and _apart(os.path.realpath(folder), closed)
        ):
            found.append(folder)
    return [*map(Path, found)]


def never(home: Path) -> list[str]:
    own = find_paths()
    secret = {f"{home}/{name}" for name in _NEVER}
    return sorted(secret | {*map(str, (own.config, own.state, own.cache, own.sockets))})


def _apart(folder: str, closed: Iterable[str]) -> bool:
    return not any(holds(folder, one) or holds(one, folder) for one in closed)


def holds(folder: str, path: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


@cache
def roots_own(folder: Path = Path("/etc")) -> frozenset[Path]:
    """Returns the files there that only root may read. For other users the kernel enforces it."""
    return frozenset(_closed_to_others(folder)) if os.geteuid() == 0 else frozenset()


def without(folder: Path, closed: frozenset[Path]) -> Iterator[tuple[Path, bool]]:
    """Yields the parts of the folder without `closed`; False for a folder that is only listed."""
    above = {parent for path in closed for parent in path.parents}
    yield from _parts(folder, closed, above)


def _parts(folder: Path, closed: frozenset[Path], above: set[Path]) -> Iterator[tuple[Path, bool]]:
    if folder not in above:
        yield folder, True
        return
    yield folder, False
    for entry in os.scandir(folder):
        path = Path(entry.path)
        if path in closed or entry.is_symlink():
            continue  # the target of a link has its own rules
        if entry.is_dir():
            yield from _parts(path, closed, above)
        else:
            yield path, True


def _closed_to_others(folder: Path) -> Iterator[Path]:
    for entry in os.scandir(folder):
        mode = entry.stat(follow_symlinks=False).st_mode
        if stat.S_ISDIR(mode):
            if mode & 0o005 == 0o005:
                yield from _closed_to_others(Path(entry.path))
            else:
                yield Path(entry.path)
        elif not stat.S_ISLNK(mode) and not mode & 0o004:
            yield Path(entry.path)
