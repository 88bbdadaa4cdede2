"""Compares files that a program changed with the accesses that the program table names."""

from __future__ import annotations

import os
import re
from fnmatch import fnmatch
from pathlib import Path

from tillerman.core.permission.shell.parsed_script import ANY, HOLE, FileAccess
from tillerman.core.permission.shell.programs import Invocation, describe


def tree_state(root: Path) -> dict[str, tuple[object, ...]]:
    found: dict[str, tuple[object, ...]] = {}
    for path in [root, *root.rglob("*")]:
        name = os.path.relpath(path, root)
        if name.startswith(".git/") and name != ".git/config":
            continue
        stat = path.lstat()
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        times = (stat.st_mtime_ns,) if path.is_file() else ()
        found[name] = (stat.st_mode, stat.st_ino, content, *times)
    found.pop(".", None)
    return found


def all_accesses(found: Invocation) -> list[FileAccess]:
    """Including the accesses of the commands it runs, as the evaluator collects them; a doubt is a
    hole."""
    collected = list(found.accesses)
    if found.doubts:
        collected.append(FileAccess(HOLE, "write"))
    for run in found.runs:
        if run.script is not None:
            collected.append(FileAccess(HOLE, "write"))
            continue
        inner = run.accesses if run.accesses is not None else all_accesses(describe(run.words))
        prefix = f"{run.directory}/" if run.directory and run.accesses is None else ""
        for one in inner:
            path = one.path if one.path.startswith("/") else prefix + one.path
            collected.append(FileAccess(path, one.kind, one.recursive, one.only))
    return collected


def covers(access: FileAccess, path: str, root: Path) -> bool:
    if HOLE in access.path:
        return True
    named = os.path.relpath(root / access.path, root)
    pattern = re.sub(f"{ANY}|X{{3,}}", "*", named)
    if named == path or fnmatch(path, pattern):
        return True
    if not access.recursive:
        return named == "." and access.kind == "write" and "/" not in path
    below = named == "." or path.startswith(f"{named}/")
    return below and (
        not access.only or any(fnmatch(path.rpartition("/")[2], one) for one in access.only)
    )


def unnamed_changes(
    found: Invocation,
    root: Path,
    before: dict[str, tuple[object, ...]],
    after: dict[str, tuple[object, ...]],
) -> list[str]:
    """Changed files that no access covers; folders that were created for them do not count."""
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    parents = {name for name in changed if any(one.startswith(f"{name}/") for one in changed)}
    accesses = [one for one in all_accesses(found) if one.kind != "read"]
    return sorted(
        name for name in changed - parents if not any(covers(one, name, root) for one in accesses)
    )
