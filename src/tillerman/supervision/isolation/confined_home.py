"""Builds the home folder and environment of a confined command: empty but for git settings.

An inaccessible home would break about half of all tools; an empty one breaks none.
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
# Point outside the sandbox: sockets it cannot reach, folders it cannot see.
_POINTING_OUT = ("XDG_", "DBUS_", "SSH_AUTH_SOCK", "SSH_AGENT_PID", "GPG_AGENT_INFO")


def variables(env: Mapping[str, str], *, home: Path, temporary: Path) -> dict[str, str]:
    """Builds the environment. If HOME changes, variables point toolchains to their folders."""
    stored = {name: value for name, value in env.items() if not name.startswith(_POINTING_OUT)}
    for name in ("TMPDIR", "TMP", "TEMP"):
        if name == "TMPDIR" or name in stored:
            stored[name] = str(temporary)
    if home != Path.home():
        for name, place in TOOLCHAIN_VARIABLES.items():
            if (folder := Path.home() / place).is_dir():
                stored.setdefault(name, str(folder))
    stored["HOME"] = str(home)
    return stored


@cache
def git_config(home: Path) -> bytes:
    """Returns the git user and branch settings only: the user's file may hold keys."""
    if (git := shutil.which("git")) is None:
        return b""
    words = [git, "config", "--global", "--null", "--get-regexp", _GIT_SETTINGS]
    try:
        reported = subprocess.run(
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
    for setting in reported.split(b"\0"):
        name, _, value = setting.partition(b"\n")
        section, _, key = name.partition(b".")
        if key:
            quoted = value.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
            lines.append(b'[%s]\n\t%s = "%s"\n' % (section, key, quoted))
    return b"".join(lines)
