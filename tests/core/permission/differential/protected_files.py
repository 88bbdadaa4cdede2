"""The content of protected names in the tree, and how it differs after a line.

Independent of the code that restores it: every file is read, and git itself reads its config.
"""

from __future__ import annotations

import os
import re
import stat
import subprocess
from typing import NamedTuple

from tests.core.permission.differential import tree
from tillerman.core.permission.protected_names import is_protected, plain

Contents = dict[str, tuple[str, int, bytes]]  # kind, mode and content by path
_GIT = "/usr/bin/git"  # and not the stub that stands for it
# Of `.git` only what names commands is protected: git itself writes the rest.
_CONFIG = f"{tree.WORKSPACE}/.git/config"
# By git's own manual: settings that name a program, or a file with more of them.
_RUNNING = re.compile(
    r"alias\..*|pager\..*|filter\..*|include(if\..*)?\.path|.*\.(command|textconv|driver|helper"
    r"|program|cmd|path|external|vcs|uploadpack|receivepack|packobjectshook|difffilter|update"
    r"|insteadof|pushinsteadof|url|pushurl|templatedir)"
    r"|core\.(editor|pager|askpass|sshcommand|hookspath|fsmonitor|gitproxy|worktree)"
    r"|sequence\.editor|sendemail\..*|web\.browser"
)
_OF_GIT = ("config", "config.worktree", "commondir", "hooks")


class Before(NamedTuple):
    contents: Contents
    folders: dict[str, int]  # inodes of all folders by path


def look() -> Before:
    contents: Contents = {}
    try:
        folders = {tree.WORKSPACE: os.stat(tree.WORKSPACE).st_ino}
    except FileNotFoundError:
        return Before({}, {})  # a line moved or removed all of it
    pending = [tree.WORKSPACE]
    while pending:
        folder = pending.pop()
        for entry in os.scandir(folder):
            status = entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode):
                folders[entry.path] = status.st_ino
                pending.append(entry.path)
            if _counts(entry.path):
                contents[entry.path] = _content(entry.path, status)
    return Before(contents, folders)


def differences(before: Before) -> list[str]:
    after = look()
    found = []
    for path in sorted(before.contents.keys() | after.contents.keys()):
        if before.contents.get(path) == after.contents.get(path):
            continue
        if path == _CONFIG and path in after.contents and not _runs_programs():
            continue  # other settings are git's to write
        if _comes_with_folder(path, before, after):
            continue
        found.append(path)
    return found


def _counts(path: str) -> bool:
    parts = [plain(part) for part in path.removeprefix(f"{tree.WORKSPACE}/").split("/")]
    if not is_protected(parts):
        return False
    if ".git" not in parts:
        return True
    inside = parts[parts.index(".git") + 1 :]
    if not inside:
        return True
    sample = inside[0] == "hooks" and inside[-1].endswith(".sample")  # git runs none
    return inside[0] in _OF_GIT and not sample


def _content(path: str, status: os.stat_result) -> tuple[str, int, bytes]:
    mode = status.st_mode & 0o7777
    if stat.S_ISDIR(status.st_mode):
        return "folder", mode if not path.endswith("/.git") else 0, b""  # git changes its mode
    if stat.S_ISLNK(status.st_mode):
        return "link", 0, os.fsencode(os.readlink(path))
    if stat.S_ISREG(status.st_mode):
        with open(path, "rb") as file:
            return "file", mode, file.read()
    return "other", mode, b""


def _runs_programs() -> bool:
    """Whether git finds such a setting in the config. If it refuses the config, it runs nothing."""
    done = subprocess.run(
        [_GIT, "config", "--file", _CONFIG, "--list", "--name-only"],
        env={"HOME": "/nowhere", "GIT_CONFIG_NOSYSTEM": "1"},
        capture_output=True,
    )
    keys = done.stdout.decode(errors="replace").split() if done.returncode == 0 else ()
    return any(map(_RUNNING.fullmatch, keys))


def _comes_with_folder(path: str, before: Before, after: Before) -> bool:
    """Whether it is in a new folder: such a name is reported, and stays (docs/policy.md)."""
    folder = os.path.dirname(path)
    while folder.startswith(f"{tree.WORKSPACE}/"):
        was, now = before.folders.get(folder), after.folders.get(folder)
        if now is not None and was != now and folder not in before.contents:
            return True
        folder = os.path.dirname(folder)
    return False
