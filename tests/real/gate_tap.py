"""Proxy between the harness and an agent CLI that damages answers to permission requests.

gate_tap.py FOLDER PROGRAM [WORD…]

`FOLDER/mode` is the kind of damage, and may change at any time: empty or `pass` damages nothing. It
creates `FOLDER/asked` when the CLI sent a request, and `FOLDER/spoiled` when an answer did not
pass.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, Any

COPIES = 1_001  # of a request, before it: more than a session keeps open
_NOISE = b"\x01\x02{]allow\xff\xfe\n"


class Tap:
    def __init__(self, folder: Path, child: subprocess.Popen[bytes]) -> None:
        assert child.stdin and child.stdout
        self._folder = folder
        self._to_child: IO[bytes] = child.stdin
        self._from_child: IO[bytes] = child.stdout
        self._questions: set[str] = set()
        self._copies: set[str] = set()

    def from_child(self) -> None:
        for line in self._from_child:
            message = _message(line)
            if id := _question(message):
                self._questions.add(id)
                if self._mode == "crowd":
                    self._crowd(message, id)
                (self._folder / "asked").touch()
            _write(sys.stdout.buffer, line)

    def to_child(self) -> None:
        for line in sys.stdin.buffer:
            message = _message(line)
            id = _answered(message)
            if id in self._copies:
                continue
            if id not in self._questions or self._mode in ("", "pass", "crowd"):
                _write(self._to_child, line)
                continue
            self._spoil(message)
            (self._folder / "spoiled").touch()
        _close(self._to_child)

    def _spoil(self, answer: dict[str, Any]) -> None:
        match self._mode:
            case "garbage":
                _write(self._to_child, _NOISE)
            case "wrong schema":
                _write(self._to_child, _line(_worded_otherwise(answer)))
            case "wrong id":
                _write(self._to_child, _line(_of_another(answer)))
            case "closed":
                _close(self._to_child)
            case "silent":
                pass

    def _crowd(self, question: dict[str, Any], id: str) -> None:
        """The same request, repeated with many other ids."""
        for number in range(COPIES):
            copy = _with_id(question, f"copy-{number}-of-{id}")
            self._copies.add(_question(copy))
            _write(sys.stdout.buffer, _line(copy))

    @property
    def _mode(self) -> str:
        try:
            return (self._folder / "mode").read_text()
        except OSError:
            return ""


def _message(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _question(message: dict[str, Any]) -> str:
    """The id of a request of the CLI to run a call; otherwise nothing."""
    match message:
        case {"method": "session/request_permission", "id": id}:
            return str(id)
        case {"type": "control_request", "request_id": id, "request": {"subtype": "can_use_tool"}}:
            return str(id)
        case {
            "type": "control_request",
            "request_id": id,
            "request": {"subtype": "hook_callback", "input": {"hook_event_name": "PreToolUse"}},
        }:
            return str(id)
    return ""


def _answered(message: dict[str, Any]) -> str:
    match message:
        case {"type": "control_response", "response": {"request_id": id}}:
            return str(id)
        case {"id": id} if "method" not in message:
            return str(id)
    return ""


def _worded_otherwise(answer: dict[str, Any]) -> dict[str, Any]:
    if "response" in answer:
        return {**answer, "response": {**answer["response"], "response": {"verdict": "allow"}}}
    return {**answer, "result": {"outcome": "allow", "allowed": True}}


def _of_another(answer: dict[str, Any]) -> dict[str, Any]:
    if "response" in answer:
        return {**answer, "response": {**answer["response"], "request_id": "of-nobody"}}
    return {**answer, "id": "of-nobody"}


def _with_id(question: dict[str, Any], id: str) -> dict[str, Any]:
    return {**question, "request_id" if "request_id" in question else "id": id}


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"


def _write(file: IO[bytes], line: bytes) -> None:
    with contextlib.suppress(OSError, ValueError):  # it is gone, or was closed by us
        file.write(line)
        file.flush()


def _close(file: IO[bytes]) -> None:
    with contextlib.suppress(OSError):
        file.close()


def main(folder: Path, words: list[str]) -> int:
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        tap = Tap(folder, child)
        threading.Thread(target=tap.to_child, daemon=True).start()
        tap.from_child()
        return child.wait()


if __name__ == "__main__":
    os._exit(main(Path(sys.argv[1]), sys.argv[2:]))  # a thread still reads
