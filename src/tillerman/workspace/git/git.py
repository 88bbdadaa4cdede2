"""Runs git so that a repository cannot make it run other programs."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tillerman.workspace.git.execute_only import call

# Override every config file: a repository's config may name programs in these.
SAFE = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.splitIndex": "false",  # else a part of a copied index is written beside the real one
    "core.pager": "cat",
    "core.editor": "false",
    "core.askPass": "false",
    "core.sshCommand": "false",
    "core.safecrlf": "false",
    "credential.helper": "",
    "protocol.ext.allow": "never",
    "gc.auto": "0",
    "maintenance.auto": "false",
}
_SAFE_ENV = {
    "LC_ALL": "C",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",  # else a partial clone would fetch missing objects
}
_KEPT = ("PATH", "HOME", "XDG_CONFIG_HOME")


class GitFailed(Exception):
    """Git is missing or failed; the message is the last line of its stderr."""


class GitSlow(GitFailed):
    """Git exceeded its time limit."""


class Deadline:
    """A time limit that several commands share."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._until = time.monotonic() + seconds

    def left(self) -> float:
        return max(0.001, self._until - time.monotonic())


def git(
    where: Path,
    *words: str,
    deadline: Deadline,
    env: Mapping[str, str] = {},
    config: Mapping[str, str] = {},
    stdin: bytes = b"",
    into: IO[bytes] | None = None,
    helpers: bool = False,
) -> bytes:
    """Runs git and returns its output, or nothing when that goes `into` a file.

    Without `helpers` it can execute only git, if the kernel has Landlock.
    """

    def run() -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            ["git", "--no-optional-locks", "--no-pager", *words],
            cwd=where,
            env={**_environment(config), **env},
            input=stdin,
            stdout=into or subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=deadline.left(),
            check=False,
        )

    try:
        done = run() if helpers else call(run)
    except subprocess.TimeoutExpired:
        raise GitSlow(f"git {words[0]} took longer than {deadline.seconds:g} s") from None
    except OSError as error:
        raise GitFailed(f"git cannot be started: {error}") from None
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise GitFailed(said[-1] if said else f"git {words[0]} exited with {done.returncode}")
    return done.stdout or b""


@dataclass(frozen=True)
class WorkTree:
    """Paths of the git data of a folder."""

    top: Path
    index: Path
    objects: Path
    exclude: Path
    object_format: str


def work_tree(path: Path, deadline: Deadline) -> WorkTree | None:
    """Returns None outside of a repository, and if git is missing or refuses the owner."""
    try:
        told = git(
            path,
            "rev-parse",
            "--path-format=absolute",
            "--show-toplevel",
            *("--git-path", "index"),
            *("--git-path", "objects"),
            *("--git-path", "info/exclude"),
            "--show-object-format",
            deadline=deadline,
        )
        top, index, objects, exclude, object_format = os.fsdecode(told).splitlines()
    except GitSlow:
        raise
    except (GitFailed, ValueError):  # ValueError: a line break in a path
        return None
    return WorkTree(Path(top), Path(index), Path(objects), Path(exclude), object_format)


def _environment(config: Mapping[str, str]) -> dict[str, str]:
    return safe_environment({**SAFE, **config}.items())


def safe_environment(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    env = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return env | _SAFE_ENV | configured(pairs)


def configured(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Returns settings that override every config file.

    They are passed as variables: `-c` would split a hostile key at its `=`.
    """
    pairs = list(pairs)
    env = {"GIT_CONFIG_COUNT": str(len(pairs))}
    for number, (key, value) in enumerate(pairs):
        env[f"GIT_CONFIG_KEY_{number}"] = key
        env[f"GIT_CONFIG_VALUE_{number}"] = value
    return env
