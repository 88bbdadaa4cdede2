"""Programs that stand first on PATH and do nothing, so that lines can call what is not installed."""

from __future__ import annotations

import os
from pathlib import Path

from tests.core.permission.differential import namespace

FOLDER = "/stubs"
SILENT = (
    *("git", "npm", "npx", "node", "curl", "wget", "ssh", "scp", "docker", "kubectl", "pytest"),
    *("python3", "python", "ruby", "cargo", "go", "pip", "yarn", "pnpm", "gh", "make", "uv"),
    *("vim", "vi", "less", "man", "systemctl", "service", "reboot", "mount", "umount", "apt-get"),
)
# Options that take a value or change what runs; others are skipped. `-s` and `-i` escape each word
# for the shell that they start, which comes to running the words themselves.
_SUDO = """#!/bin/sh
while [ $# -gt 0 ]; do
  case $1 in
    --) shift; break;;
    -[ugpChrtTUR]) shift; [ $# -gt 0 ] && shift;;
    -D) cd "$2" || exit 1; shift 2;;
    -D*) cd "${1#-D}" || exit 1; shift;;
    --user|--group|--prompt|--host) shift; [ $# -gt 0 ] && shift;;
    -*) shift;;
    *=*) export "$1"; shift;;
    *) break;;
  esac
done
[ $# -gt 0 ] || exit 1
exec "$@"
"""
_DOAS = """#!/bin/sh
while [ $# -gt 0 ]; do
  case $1 in
    --) shift; break;;
    -[uC]) shift; [ $# -gt 0 ] && shift;;
    -*) shift;;
    *) break;;
  esac
done
[ $# -gt 0 ] || exit 1
exec "$@"
"""
# Stands for a denied program where execs are not logged: says that it ran, whatever it is called.
_RECORDER = """#!/bin/sh
printf '%s\\0' {name} "$@" "@end" >> /log/execs
"""
RECORDED = ("rm", "curl", "git")
RUNNERS = {"sudo": _SUDO, "doas": _DOAS}


def install() -> None:
    for name in SILENT:
        os.symlink("/usr/bin/true", f"{FOLDER}/{name}")
        real = f"/usr/bin/{name}"
        if name != "git" and os.path.exists(real):  # git itself judges a config
            namespace.bind("/usr/bin/true", real)
    for name, text in RUNNERS.items():
        path = Path(FOLDER, name)
        path.write_text(text)
        path.chmod(0o755)


def install_recorders() -> None:
    for name in RECORDED:
        script = Path(FOLDER, f"recorder-{name}")
        script.write_text(_RECORDER.format(name=name))
        script.chmod(0o755)
        Path(FOLDER, name).unlink(missing_ok=True)
        os.symlink(script, f"{FOLDER}/{name}")
        real = f"/usr/bin/{name}"
        if os.path.exists(real):
            namespace.bind(str(script), real)
    namespace.mount_tree("/log")


def recorded() -> list[tuple[str, list[str], str, list[str]]]:
    """The calls of recorders since the last time, as the exec log would say."""
    path = Path("/log/execs")
    if not path.exists():
        return []
    calls = path.read_bytes().split(b"@end\0")
    path.unlink()
    found: list[tuple[str, list[str], str, list[str]]] = []
    for call in calls:
        words = [os.fsdecode(word) for word in call.split(b"\0")[:-1]]
        if words:
            found.append((f"{FOLDER}/{words[0]}", words, "/", []))
    return found
