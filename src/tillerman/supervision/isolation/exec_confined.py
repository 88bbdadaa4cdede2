"""Runs a confined command without a keeper: reads it from stdin, enforces rules, execs."""

from __future__ import annotations

import marshal
import os

from tillerman.supervision.isolation.enforcement import enforce


def main() -> None:
    received = bytearray()
    while part := os.read(0, 65536):
        received += part
    argv, env, cwd, rules = marshal.loads(received)
    os.chdir(cwd)
    enforce(rules)
    # nothing can be imported from here on: the modules may lie outside the sandbox
    name, folders = argv[0], env.get("PATH", os.defpath).split(":")
    for path in [name] if "/" in name else [f"{folder}/{name}" for folder in folders]:
        try:
            os.execve(path, argv, env)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            continue
    os.write(2, f"{name} cannot be run\n".encode())
    os._exit(127)
