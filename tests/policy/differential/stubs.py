"""Programs that stand first on PATH and do nothing, so that lines can call what is not installed."""

from __future__ import annotations

import os
from pathlib import Path

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
RUNNERS = {"sudo": _SUDO, "doas": _DOAS}


def install() -> None:
    for name in SILENT:
        os.symlink("/usr/bin/true", f"{FOLDER}/{name}")
    for name, text in RUNNERS.items():
        path = Path(FOLDER, name)
        path.write_text(text)
        path.chmod(0o755)
