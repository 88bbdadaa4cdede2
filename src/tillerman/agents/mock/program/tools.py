"""Tools of the mock agent: read and change files, run commands."""

# Importing pathlib would double the startup time.
# ruff: noqa: PTH100, PTH103, PTH110, PTH120, PTH123
from __future__ import annotations

import json
import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Input = dict[str, Any]

SHOWN = 4096  # bytes of a running command's output


def input_of(step: dict[str, Any]) -> tuple[str, Input]:
    """The tool that a step calls, and its input."""
    match step:
        case {"read": path}:
            return "read", {"path": path}
        case {"write": path, "text": text}:
            return "write", {"path": path, "text": text}
        case {"edit": path, "old": old, "new": new}:
            return "edit", {"path": path, "old": old, "new": new}
        case {"run": command}:
            return "run", {"command": command}
        case {"present": plan}:
            return "present", {"plan": plan}
        case {"call": str(name), **rest} if "." in name:
            return name, dict(rest.get("input") or {})
    raise ValueError(f"not a call of a tool: {json.dumps(step)}")


def touch(tool: str, input: Input) -> dict[str, Any]:
    """Reads or changes a file, or presents a plan; returns the content of the result."""
    if tool == "present":
        return {"type": "text", "text": "approved"}
    path = input["path"]
    if tool == "read":
        with open(path, encoding="utf-8", errors="replace") as file:
            return {"type": "text", "text": file.read()}
    before = None
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            before = file.read()
    if tool == "write":
        after = input["text"]
    elif before is not None and input["old"] in before:
        after = before.replace(input["old"], input["new"], 1)
    else:
        raise ValueError(f"{path}: the text to replace was not found")
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(after)
    return {"type": "diff", "path": path, "old": before, "new": after}


def run(command: str, wait: Callable[[int], None], show: Callable[[str], None]) -> tuple[int, str]:
    """Runs a command until it ends or is interrupted; returns its exit code and output."""
    import subprocess

    process = subprocess.Popen(
        command,
        shell=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    assert process.stdout
    fd = process.stdout.fileno()
    output = b""
    try:
        while True:
            wait(fd)
            data = os.read(fd, 1 << 16)
            if not data:
                return process.wait(), output.decode("utf-8", "replace")
            output += data
            show(output[-SHOWN:].decode("utf-8", "replace"))
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
