"""Processes that change one file as fast as they can: with the file tools, and by other means."""

from __future__ import annotations

import ctypes
import json
import os
import sys
from pathlib import Path

EXCHANGE = 2


def edit(workspace: str, locks: str, name: str, count: int, named: bool) -> None:
    """With the file tools; prints each line that was reported as written."""
    from tillerman.workspace.files.access.confined_root import ConfinedRoot
    from tillerman.workspace.files.access.path_locks import PathLocks
    from tillerman.workspace.files.file_tools import Files
    from tillerman.workspace.files.refusal import Refused

    with ConfinedRoot(Path(workspace), locks=PathLocks(Path(locks)), walk=named) as root:
        files = Files(root, Path(workspace, "exports"))
        print("ready", flush=True)
        for number in range(count):
            line = f"{name}-{number}"
            try:
                match number % 3:
                    case 0:
                        files.replace_text_in_file("a", "last\n", f"{line}\nlast\n")
                    case 1:
                        files.replace_lines_in_file("a", 1, 1, f"first\n{line}", "first")
                    case _:
                        seen = files.read_file("a", limit=10_000)
                        files.write_file("a", f"{seen.text}\n{line}\n", seen.hash)  # type: ignore[union-attr]
            except Refused as refusal:
                if "hash" not in refusal.message and "changed by another" not in refusal.message:
                    raise
                continue
            print(line, flush=True)


def follow(workspace: str, locks: str, count: int) -> None:
    """Changes the current version; prints the numbers of changes that were reported as done."""
    from tillerman.workspace.files.access.confined_root import ConfinedRoot
    from tillerman.workspace.files.access.path_locks import PathLocks
    from tillerman.workspace.files.file_tools import Files
    from tillerman.workspace.files.refusal import Refused

    with ConfinedRoot(Path(workspace), locks=PathLocks(Path(locks))) as root:
        files = Files(root, Path(workspace, "exports"))
        print("ready", flush=True)
        done = []
        while len(done) < count:
            try:
                version = files.read_file("a").text.split()[0]  # type: ignore[union-attr]
                files.replace_text_in_file("a", f"{version} new", f"{version} edited")
                done.append(int(version))
            except Refused:
                continue
        print(json.dumps(done), flush=True)


def replace(workspace: str, drafts: str, until: str) -> None:
    """An editor without locks: exchanges version after version, just when another process is about
    to. Prints what it replaced if that was not its last version."""
    libc = ctypes.CDLL(None, use_errno=True)
    path, draft = Path(workspace, "a"), Path(workspace, "draft")
    strange = []
    number = 0
    print("ready", flush=True)
    while not Path(until).exists():
        draft.unlink(missing_ok=True)  # who reads it still sees it as it was
        draft.write_text(f"{number + 1} new\n")
        names = os.fsencode(draft), os.fsencode(path)
        for _ in range(number % 40):
            if os.listdir(drafts):  # noqa: PTH208 -- in a hurry
                break
        if libc.renameat2(-100, names[0], -100, names[1], EXCHANGE):
            raise OSError(ctypes.get_errno(), "renameat2")
        version, how = draft.read_text().split()
        if int(version) != number:
            strange.append([number, int(version), how])
        number += 1
    draft.unlink()
    print(json.dumps([number, strange]), flush=True)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["edit", workspace, locks, name, count, named]:
            edit(workspace, locks, name, int(count), named == "named")
        case ["follow", workspace, locks, count]:
            follow(workspace, locks, int(count))
        case ["replace", workspace, drafts, until]:
            replace(workspace, drafts, until)
