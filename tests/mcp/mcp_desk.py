"""A user's machine in a folder with `tillerman mcp serve` running, and a hand-written client."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.stand_ins.warm_python import Forked, run_tillerman, start_tillerman

MAX_WAIT = 60.0  # seconds; longer than a command may take, so that one that hangs is reported
PROCESS = re.compile(r"\bp[0-9a-f]{10}\b")
LIBRARIES = ("mcp",)  # a second of each start
TALKER = "echo ready; while read word; do echo heard $word; done"
HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "by hand", "version": "1"},
}

# Each tool once, in a useful order: its arguments, and its output.
# `*` is replaced by the process that was started last.
ERRANDS: list[tuple[str, dict[str, Any], str]] = [
    ("write_file", {"path": "notes/a.txt", "content": "one\ntwo\n"}, "created"),
    ("read_file", {"path": "notes/a.txt"}, "two"),
    (
        "replace_lines_in_file",
        {
            "path": "notes/a.txt",
            "start": 2,
            "end": 2,
            "new_text": "zwei",
            "expected_old_text": "two",
        },
        "+zwei",
    ),
    (
        "replace_text_in_file",
        {"path": "notes/a.txt", "old_text": "zwei", "new_text": "two\nthree"},
        "+three",
    ),
    (
        "replace_text_in_file",
        {"path": "notes/a.txt", "old_text": "two\nthree", "new_text": "zwei", "count": 1},
        "-three",
    ),
    ("create_directory", {"path": "box/inner"}, "box/inner/ created"),
    ("move_file", {"source": "box/inner", "destination": "box/other"}, "moved to box/other"),
    ("delete_file", {"path": "box", "recursive": True}, "box deleted"),
    ("list_directory", {"depth": 2}, "notes/a.txt"),
    ("search_files", {"pattern": "zwei"}, "notes/a.txt:2"),
    ("export_file", {"path": "notes/a.txt"}, "exports"),
    ("export_zip", {"paths": ["notes"]}, "/workspace"),
    ("import_file", {"source": "/etc/hostname", "path": "host.txt"}, "host.txt"),
    ("execute_shell", {"command": TALKER, "run_mode": "background"}, "process_id"),
    ("write_process_input", {"process_id": "*", "text": "ping\n"}, "running"),
    ("poll_process", {"process_id": "*", "tail": {"src": "stdout", "n": 5}}, "heard ping"),
    ("read_process_output", {"process_id": "*", "mode": "head"}, "ready"),
    ("search_process_output", {"process_id": "*", "pattern": "ready"}, "1 matches"),
    ("list_processes", {"status_filter": "running"}, "1 processes"),
    ("kill_process", {"process_id": "*"}, "killed"),
]


class Machine:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.project = folder / "project"
        self.tillerman = folder / "tillerman"
        (folder / "home").mkdir(parents=True)
        self.project.mkdir()
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder / "home"),
            "TILLERMAN_HOME": str(self.tillerman),
            "LANG": "C.UTF-8",
            "COLUMNS": "100",
        }
        self._wires: list[Wire] = []
        self._started: list[Forked | subprocess.Popen[bytes]] = []

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "tillerman", *words]

    def run(
        self, *words: str, cwd: Path | None = None, input: bytes | None = None
    ) -> subprocess.CompletedProcess[str]:
        return run_tillerman(
            words,
            cwd=cwd or self.project,
            env=self.environment,
            input=input,
            libraries=LIBRARIES,
        )

    def json(self, *words: str) -> Any:
        done = self.run(*words)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def start(
        self,
        *words: str,
        cwd: Path | None = None,
        env: Mapping[str, str] = {},
        stdin: bool = True,
    ) -> Forked | subprocess.Popen[bytes]:
        process = start_tillerman(
            words,
            cwd=cwd or self.project,
            env=self.environment | dict(env),
            stdin=stdin,
            libraries=LIBRARIES,
        )
        self._started.append(process)
        return process

    def serve(self, *words: str, cwd: Path | None = None, env: Mapping[str, str] = {}) -> Wire:
        """`tillerman mcp serve` on a pipe."""
        wire = Wire(self.start("mcp", "serve", *words, cwd=cwd, env=env))
        self._wires.append(wire)
        return wire

    def greeted(self, *words: str, **more: Any) -> Wire:
        wire = self.serve(*words, **more)
        wire.greet()
        return wire

    def sessions(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.json("sessions", "list", "--json")
        return found

    def log(self, session: str = "last") -> list[dict[str, Any]]:
        """The entries of the log."""
        done = self.run("sessions", "show", "--json", session)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def close(self) -> None:
        for wire in self._wires:
            wire.kill()
        for process in self._started:  # of a test that failed before it ended them
            if process.poll() is None:
                process.kill()
                process.wait(MAX_WAIT)
        for left in (self.tillerman / "state" / "processes").glob("*"):
            self.run("sessions", "delete", "-y", left.name)


class Wire:
    """A client that sends exactly the given lines."""

    def __init__(self, process: Forked | subprocess.Popen[bytes]) -> None:
        self.process = process
        self.notes: list[dict[str, Any]] = []  # what came without an id, or with none of ours
        self._answers: dict[int | str, dict[str, Any]] = {}
        self._updates = threading.Condition()
        self._last = 0
        self._ended = False
        self._errors = bytearray()
        self._threads = [
            threading.Thread(target=self._receive, daemon=True),
            threading.Thread(target=self._read_errors, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    @property
    def errors(self) -> str:
        return self._errors.decode("utf-8", "replace")

    def greet(self) -> dict[str, Any]:
        answer = self.ask("initialize", HELLO)
        self.report("notifications/initialized")
        return answer

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return self.called(self.begin(tool, **arguments))

    def begin(self, tool: str, **arguments: Any) -> int:
        return self.request("tools/call", {"name": tool, "arguments": arguments})

    def called(self, request: int) -> dict[str, Any]:
        answer = self.answer(request)
        assert "result" in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def ask(self, method: str, params: Any = None) -> dict[str, Any]:
        return self.answer(self.request(method, params))

    def request(self, method: str, params: Any = None) -> int:
        self._last += 1
        parsed = {"jsonrpc": "2.0", "id": self._last, "method": method}
        self.send(json.dumps(parsed | ({"params": params} if params is not None else {})))
        return self._last

    def report(self, method: str, params: Any = None) -> None:
        self.send(json.dumps({"jsonrpc": "2.0", "method": method, "params": params or {}}))

    def send(self, line: str | bytes) -> None:
        data = line.encode() if isinstance(line, str) else line
        assert self.process.stdin
        self.process.stdin.write(data + b"\n")
        self.process.stdin.flush()

    def answer(self, request: int | str) -> dict[str, Any]:
        with self._updates:
            came = self._updates.wait_for(lambda: request in self._answers or self._ended, MAX_WAIT)
            assert came, f"no answer to {request}: {self.errors}"
            assert request in self._answers, f"it ended: {self.errors}"
            return self._answers.pop(request)

    def note(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The first message without one of our ids that matches."""
        with self._updates:
            came = self._updates.wait_for(
                lambda: any(map(wanted, self.notes)) or self._ended, MAX_WAIT
            )
            assert came and any(map(wanted, self.notes)), (self.notes, self.errors)
            return next(filter(wanted, self.notes))

    def answered(self, request: int) -> bool:
        with self._updates:
            return request in self._answers

    def end(self) -> int:
        """Disconnects; returns the exit code of the server."""
        assert self.process.stdin
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        return self.wait()

    def wait(self) -> int:
        code = self.process.wait(MAX_WAIT)
        for thread in self._threads:
            thread.join(MAX_WAIT)
        return code

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()

    def _receive(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            parsed = json.loads(line)
            with self._updates:
                if parsed.get("id") is not None:
                    self._answers[parsed["id"]] = parsed
                else:
                    self.notes.append(parsed)
                self._updates.notify_all()
        with self._updates:
            self._ended = True
            self._updates.notify_all()

    def _read_errors(self) -> None:
        assert self.process.stderr
        while data := self.process.stderr.read1():
            self._errors += data


def text(result: Mapping[str, Any]) -> str:
    """The text of a tool's result."""
    return "".join(part["text"] for part in result["content"])


def started(wire: Wire, command: str = TALKER, mode: str = "background") -> str:
    """Starts a background process; returns its id."""
    message = text(wire.call("execute_shell", command=command, run_mode=mode))
    return PROCESS.findall(message)[0]


def pid_of(result: Mapping[str, Any]) -> int:
    pid: int = result["_meta"]["tillerman/result"]["pid"]
    return pid


def tree(mark: str) -> list[int]:
    """All processes of this machine with the marker in their command line."""
    return list(_marked(mark.encode()))


def _marked(mark: bytes) -> Iterator[int]:
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if mark in (entry / "cmdline").read_bytes() and _state(entry) != b"Z":
                yield int(entry.name)


def _state(entry: Path) -> bytes:
    return (entry / "stat").read_bytes().rpartition(b")")[2].split()[0]


def until(true: Callable[[], Any], seconds: float = MAX_WAIT) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.02)
    return found
