"""Finds files whose reading rules deny, so that mounts can hide them.

A rule has patterns, but a mount needs a file: the workspace is walked once, within limits, and the
policy decides for each candidate whether it is denied.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from tillerman.core.permission.path_location import PLACES
from tillerman.core.permission.patterns import is_pattern, path_glob
from tillerman.core.permission.protected_names import plain
from tillerman.core.permission.rules import Rule
from tillerman.core.tools import READS
from tillerman.workspace.files.file_names import SKIPPED
from tillerman.workspace.protection.git.index import tracked
from tillerman.workspace.protection.mount_plan import AGENTS_OWN

MOST_ENTRIES = 20_000
MOST_HIDDEN = 200


class DeniedPaths(NamedTuple):
    """Absolute paths to hide, and why some denied ones cannot be hidden."""

    hidden: tuple[str, ...] = ()
    advisory: tuple[tuple[str, str], ...] = ()  # path or pattern, and the reason


def reads_denied(rules: Iterable[Rule]) -> list[Rule]:
    """Returns the rules that deny reading files unconditionally."""
    reads = READS | {"read"}
    return [
        rule
        for rule in rules
        if rule.verdict == "deny"
        and any(path not in PLACES for path in rule.paths)
        and not (rule.commands or rule.hosts or rule.servers or rule.line)
        and (rule.tools is None or rule.tools & reads)
        and not (rule.besides and rule.besides & reads)
    ]


def find_denied(root: Path, rules: Sequence[Rule], is_denied: Callable[[str], bool]) -> DeniedPaths:
    """Finds denied files. `is_denied`: the decision of the whole policy for an absolute path."""
    patterns = [path for rule in rules for path in rule.paths if path not in PLACES]
    beside: list[tuple[str, str]] = []
    outside = _outside(root, patterns, beside)
    found, whole = _walk(root, [_folded(one) for one in patterns])
    if not whole:
        beside.append((", ".join(patterns), f"only the first {MOST_ENTRIES} files were checked"))
    denied = [path for path in found if is_denied(f"{root}/{path}")]
    known = tracked(str(root / ".git"), denied)
    hidden: list[str] = []
    for path in denied:
        if known is None or path in known:
            beside.append((path, "it is tracked by git, which would reveal its content anyway"))
        elif len(hidden) < MOST_HIDDEN:
            hidden.append(f"{root}/{path}")
        else:
            beside.append((path, f"more than {MOST_HIDDEN} files are denied"))
    hidden += [path for path in outside if is_denied(path)]
    return DeniedPaths(tuple(hidden), tuple(beside))


def may_be_denied(name: str, patterns: Iterable[str]) -> bool:
    """Returns whether a new file of this name may be denied: then the search is repeated."""
    last = [_folded(one.removesuffix("/**").rstrip("/")).rpartition("/")[2] for one in patterns]
    return any(path_glob(one, True).fullmatch(plain(name)) for one in last if one)


def _outside(root: Path, patterns: Iterable[str], beside: list[tuple[str, str]]) -> list[str]:
    """Returns existing files that patterns name absolutely: `~/.ssh`, `/etc/key`."""
    home = Path.home()
    own = tuple(f"{home}/{name}" for name in AGENTS_OWN)
    found = []
    for pattern in patterns:
        path = pattern.removesuffix("/**").rstrip("/")
        if path.startswith("~/"):
            path = f"{home}{path[1:]}"
        if not path.startswith("/") or path.startswith(f"{root}/"):
            continue
        if is_pattern(path):
            beside.append((pattern, "patterns outside the workspace are not searched"))
        elif f"{root}/".startswith(f"{path}/") or f"{home}/".startswith(f"{path}/"):
            beside.append((pattern, "it contains the workspace or the home folder"))
        elif any(f"{path}/".startswith(f"{one}/") for one in own):
            beside.append((pattern, "an agent stores its state there"))
        elif os.path.lexists(path):
            found.append(path)
    return found


def _walk(root: Path, patterns: Sequence[str]) -> tuple[list[str], bool]:
    """Returns matching paths, outermost first, and whether the whole workspace was walked."""
    globs = [_glob(pattern, _folded(str(root))) for pattern in patterns]
    found: list[str] = []
    todo, seen = [""], 0
    while todo:
        folder = todo.pop()
        try:
            with os.scandir(root / folder) as entries:
                listed = [(one.name, one.is_dir(follow_symlinks=False)) for one in entries]
        except OSError:
            continue
        for name, is_folder in listed:
            seen += 1
            path = f"{folder}/{name}" if folder else name
            folded = _folded(path)
            if any(glob(folded) for glob in globs):
                found.append(path)
            elif is_folder and name not in SKIPPED:
                todo.append(path)
        if seen > MOST_ENTRIES:
            return sorted(found), False
    return sorted(found), True


def _glob(pattern: str, root: str) -> Callable[[str], bool]:
    """Compiles a pattern as the policy does for deny rules."""
    regex = path_glob(pattern.removesuffix("/**").removeprefix("./"), True)
    if pattern.startswith("/"):
        return lambda path: regex.fullmatch(f"{root}/{path}") is not None
    if "/" in pattern.removesuffix("/**").rstrip("/"):
        return lambda path: regex.fullmatch(path) is not None
    return lambda path: regex.fullmatch(path.rpartition("/")[2]) is not None


def _folded(path: str) -> str:
    return "/".join(plain(part) for part in path.split("/"))
