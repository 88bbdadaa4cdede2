"""Fault-injection steps of the mock agent: crashes, floods, orphan processes, invalid output."""

from __future__ import annotations

import json
import os
import signal

from .stdio import StdioPeer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .script import Step

MEGABYTE = 1 << 20


def misbehave(step: Step, host: StdioPeer) -> None:
    match step:
        case {"crash": str(name)}:
            os.kill(os.getpid(), getattr(signal, name))
        case {"crash": code}:
            os._exit(code)
        case {"deaf": _}:
            host.deaf = True
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        case {"flood": megabytes}:
            flood(host, megabytes, step.get("of", "lines"))
        case {"orphan": seconds}:
            orphan(seconds, holds=step.get("holds", False))
        case {"send": message}:
            host.write(json.dumps(message).encode() + b"\n")
        case {"line": text}:
            host.write(text.encode() + (b"\n" if step.get("newline", True) else b""))
        case {"stderr": text}:
            host.write(text.encode(), fd=2)


def flood(host: StdioPeer, megabytes: int, of: str) -> None:
    line = json.dumps({"type": "text", "id": "flood", "text": "x" * 200}).encode() + b"\n"
    start, block, end = b"", b"x" * MEGABYTE, b"\n"
    if of == "lines":
        block, end = line * (MEGABYTE // len(line)), b""
    elif of == "json":
        start, end = line.split(b"xx", 1)[0], b'"}\n'
    fd = 2 if of == "stderr" else 1
    host.write(start, fd)
    for _ in range(megabytes):
        host.write(os.urandom(MEGABYTE) if of == "garbage" else block, fd)
    host.write(end, fd)


def orphan(seconds: float, *, holds: bool) -> None:
    import subprocess

    output = None if holds else subprocess.DEVNULL
    subprocess.Popen(
        ["sleep", str(seconds)],
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
    )
