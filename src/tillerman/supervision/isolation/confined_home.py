"""The home and the variables a confined command gets: empty but for the user's name in git.

A home that is there but closed would make half of all tools fail; an empty one makes none.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from tillerman.supervision.isolation.readable_system_paths import TOOLCHAIN_VARIABLES

GIT_CONFIG = ".gitconfig"
_GIT_SETTINGS = r"^(user\.(name|email)|init\.defaultbranch|core\.autocrlf)$"
# Ways to what is outside: sockets that it cannot reach, folders that it cannot see.
_POINTING_OUT = ("XDG_", "DBUS_", "SSH_AUTH_SOCK", "SSH_AGENT_PID", "GPG_AGENT_INFO")


def variables(env: Mapping[str, str], *, home: Path, temporary: Path) -> dict[str, str]:
    """Where the home is not the user's own, the toolchains are told where they are."""
    kept = {name: value for name, value in env.items() if not name.startswith(_POINTING_OUT)}
    for name in ("TMPDIR", "TMP", "TEMP"):
        if name == "TMPDIR" or name in kept:
            kept[name] = str(temporary)
    if home != Path.home():
        for name, place in TOOLCHAIN_VARIABLES.items():
            if (folder := Path.home() / place).is_dir():
                kept.setdefault(name, str(folder))
    kept["HOME"] = str(home)
    return kept


@cache
def git_config(home: Path) -> bytes:
    """Who commits, and what a new branch is called: the rest of the user's file may hold keys."""
    if (git := shutil.which("git")) is None:
        return b""
    words = [git, "config", "--global", "--null", "--get-regexp", _GIT_SETTINGS]
    try:
        said = subprocess.run(
            words,
            env={"HOME": str(home), "PATH": "/usr/bin:/bin"},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=5,
            check=False,
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return b""
    lines = []
    for setting in said.split(b"\0"):
        name, _, value = setting.partition(b"\n")
        section, _, key = name.partition(b".")
        if key:
            quoted = value.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
            lines.append(b'[%s]\n\t%s = "%s"\n' % (section, key, quoted))
    return b"".join(lines)
