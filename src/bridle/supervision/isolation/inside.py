"""Becomes a confined command without a keeper: reads it from standard input, enforces, execs."""

from __future__ import annotations

import marshal
import os

from bridle.supervision.isolation.enforcement import enforce


def main() -> None:
    said = bytearray()
    while part := os.read(0, 65536):
        said += part
    argv, env, cwd, rules = marshal.loads(said)
    enforce(rules)
    os.chdir(cwd)
    os.execvpe(argv[0], argv, env)
