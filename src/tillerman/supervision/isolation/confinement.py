"""Turns a command into one that runs at an isolation level, or refuses the level."""

from __future__ import annotations

import errno
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

from tillerman.core.errors import IsolationUnavailable, UsageError
from tillerman.supervision.isolation import LEVELS, bubblewrap, landlock, seccomp
from tillerman.supervision.isolation.confined_home import GIT_CONFIG, git_config, variables
from tillerman.supervision.isolation.enforcement import Rules
from tillerman.supervision.isolation.limits import limits
from tillerman.supervision.isolation.readable_system_paths import (
    DEVICES,
    SYSTEM,
    holds,
    roots_own,
    system,
    toolchains,
)
from tillerman.supervision.isolation.readable_system_paths import without as parts_without

IsolationLevel = Literal["basic", "medium", "high"]

# Capabilities that root needs for files of other users and for its own children. A confined command
# needs no others, such as to set the clock, create devices or raise limits.
_KEPT_BY_ROOT = (0, 1, 3, 4, 5, 6, 7)  # chown, dac_override, fowner, fsetid, kill, setgid, setuid


class ConfinedCommand(NamedTuple):
    """A command at a level. Call `after` once all of its processes have ended.

    Spawn it with this `env`, not with the given one, and pass `rules` to `enforce`. `unheld` are
    the protected paths that the level itself does not protect from changes.

    At high, `argv` is bubblewrap's: it exits with 128 + N when the command ended by signal N. A
    signal to bubblewrap does not reach the command, but if it ends bubblewrap, everything ends.
    """

    argv: list[str]
    env: dict[str, str]
    rules: Rules
    unheld: tuple[Path, ...] = ()
    scratch: Path | None = None


def confine(
    level: IsolationLevel,
    *,
    workspace: Path,
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: Path,
    protected: Sequence[Path] = (),
    scratch: Path | None = None,
) -> ConfinedCommand:
    """Confines a command. Raises IsolationUnavailable if the level is not available here.

    A level is never lowered. The first call for a level runs its probe, about 50 ms: call it from a
    thread. `scratch` is the folder for the home and temporary files of medium, by default a new
    folder; it must not exist.
    """
    if level not in LEVELS:
        raise UsageError(f"unknown isolation level {level!r}", hint=f"one of {', '.join(LEVELS)}")
    if level == "basic":
        rules: Rules = (limits("basic"), None, None, None, ())
        return ConfinedCommand(list(argv), dict(env), rules, tuple(protected))
    called, workspace = workspace, workspace.resolve(strict=True)
    check_level(level, workspace)
    names = [
        workspace / path.relative_to(called) if path.is_relative_to(called) else path
        for path in protected
    ]
    build = _medium if level == "medium" else _high
    return build(workspace, list(argv), dict(env), cwd, names, scratch, ())


def check_level(level: str, workspace: Path) -> None:
    """Raises IsolationUnavailable when no command can run at this level in this workspace.

    The first call for a level runs its probe: call it from a thread.
    """
    if level != "basic":
        _check_workspace(level, workspace.resolve(strict=True))
    if reason := refusal(level):
        raise reason


def after(confined: ConfinedCommand) -> None:
    """Removes the home and temporary files of the command."""
    if confined.scratch:
        shutil.rmtree(confined.scratch, onerror=_open_and_retry)


def refusal(level: str) -> IsolationUnavailable | None:
    """Returns why the level is unavailable on this machine and how to fix it; None if it works."""
    if level == "basic" or level in _proved:
        return None
    why = _missing(level)
    if why is None:
        from tillerman.supervision.isolation.probe import escapes

        why = escapes(level, trial)
    if why is None:
        _proved.add(level)
        return None
    return IsolationUnavailable(level, *why)


_proved: set[str] = set()  # refusals are not cached: the cause may be fixed by the next call


def trial(
    level: str, workspace: Path, argv: list[str], env: dict[str, str], readable: Sequence[Path]
) -> ConfinedCommand:
    """Like `confine`, but without the probe and with more readable paths: only for the probe."""
    build = _medium if level == "medium" else _high
    return build(workspace, argv, env, workspace, (), None, readable)


def _missing(level: str) -> tuple[str, str] | None:
    if sys.platform != "linux":
        return "only available on Linux", "use basic"
    if platform.machine() not in seccomp.MACHINES:
        return (
            f"there is no system call filter for {platform.machine()}",
            f"supported: {' and '.join(seccomp.MACHINES)}; use basic",
        )
    return _no_landlock() if level == "medium" else _no_bubblewrap()


def _no_landlock() -> tuple[str, str] | None:
    try:
        landlock.version()
    except OSError as error:
        if error.errno == errno.EOPNOTSUPP:
            return "Landlock is disabled", "start the kernel with lsm=landlock,… and others"
        return (
            f"no Landlock: {error.strerror}",
            "it requires Linux 6.12 or newer; use high, or basic",
        )
    return None


def _no_bubblewrap() -> tuple[str, str] | None:
    if bubblewrap.find(None):
        return None
    return "bubblewrap (bwrap) is not installed", _install("bubblewrap")


def _install(package: str) -> str:
    for manager, words in (
        ("apt-get", "apt install"),
        ("dnf", "dnf install"),
        ("pacman", "pacman -S"),
        ("zypper", "zypper install"),
        ("apk", "apk add"),
    ):
        if shutil.which(manager):
            return f"{words} {package}"
    return f"install {package}"


def _check_workspace(level: str, workspace: Path) -> None:
    """Rejects a workspace that contains the home or the system: nothing would be isolated."""
    for place in (str(Path.home().resolve()), *SYSTEM):
        if holds(str(workspace), place):
            raise IsolationUnavailable(
                level,
                f"the workspace {workspace} contains {place}, which commands could access",
                "work in a subfolder, or use basic",
            )


def _medium(
    workspace: Path,
    argv: list[str],
    env: dict[str, str],
    cwd: Path,
    protected: Sequence[Path],
    scratch: Path | None,
    readable: Sequence[Path],
) -> ConfinedCommand:
    scratch = _make_scratch(scratch)
    home, temporary = scratch / "home", scratch / "tmp"
    try:
        home.mkdir()
        temporary.mkdir()
        if settings := git_config(Path.home()):
            (home / GIT_CONFIG).write_bytes(settings)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise
    tools = _toolchains(workspace)
    places = [(workspace, landlock.WORK), (scratch, landlock.WORK), (Path("/proc"), landlock.READ)]
    places += [(Path("/dev") / name, landlock.DEVICE) for name in DEVICES]
    places += [(path, landlock.RUN) for path in (*tools, *readable)]
    places += _system_places()
    beneath = tuple((os.fsencode(path), rights) for path, rights in places)
    return ConfinedCommand(
        argv,
        variables(env, home=home, temporary=temporary),
        (
            limits("medium"),
            _KEPT_BY_ROOT,
            (*landlock.handled(landlock.version()), beneath),
            seccomp.program("medium", seccomp.MACHINES[platform.machine()]),
            (),
        ),
        unheld=tuple(protected),
        scratch=scratch,
    )


def _toolchains(workspace: Path) -> list[Path]:
    """Uses the harness's HOME and PATH: the command's could be set to open more paths."""
    return toolchains(Path.home(), os.environ.get("PATH", os.defpath), workspace)


@cache  # for root it walks a folder tree
def _system_places() -> tuple[tuple[Path, int], ...]:
    return tuple(
        (part, landlock.RUN if whole else landlock.LIST)
        for folder in system()
        for part, whole in parts_without(folder, roots_own())
    )


def _make_scratch(wanted: Path | None) -> Path:
    if wanted is None:
        return Path(tempfile.mkdtemp(prefix="tillerman-")).resolve()
    wanted.mkdir(mode=0o700, parents=True)
    return wanted.resolve()


def _high(
    workspace: Path,
    argv: list[str],
    env: dict[str, str],
    cwd: Path,
    protected: Sequence[Path],
    scratch: Path | None,
    readable: Sequence[Path],
) -> ConfinedCommand:
    program = bubblewrap.find(workspace)
    if program is None:
        raise IsolationUnavailable("high", *(_no_bubblewrap() or ("bwrap is in the workspace", "")))
    home = Path.home()
    outer, inner = bubblewrap.for_bubblewrap(variables(env, home=home, temporary=Path("/tmp")))
    settings = git_config(home)
    mounts = bubblewrap.ProtectedMounts(workspace, protected)
    files = [(bubblewrap.FILTER, seccomp.program("high", seccomp.MACHINES[platform.machine()]))]
    if settings:
        files.append((bubblewrap.GIT, settings))
    words = bubblewrap.arguments(
        program,
        argv=argv,
        workspace=workspace,
        cwd=cwd.resolve(),
        home=home,
        readable=[*_toolchains(workspace), *readable],
        protected=mounts,
        inner=inner,
        git=bool(settings),
    )
    rules: Rules = (limits("high"), None, None, None, tuple(files))
    return ConfinedCommand(words, outer, rules, unheld=tuple(mounts.unheld))


def _open_and_retry(remove: Callable[..., Any], path: str, error: Any) -> None:
    """Retries after chmod: the command may have removed permissions of a folder."""
    try:
        Path(path).parent.chmod(0o700)
        if Path(path).is_dir() and not Path(path).is_symlink():
            Path(path).chmod(0o700)
            shutil.rmtree(path, ignore_errors=True)
        else:
            remove(path)
    except OSError:
        pass  # owned by root, or already removed
