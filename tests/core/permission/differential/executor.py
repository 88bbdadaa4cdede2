"""Runs lines in real shells inside private namespaces, and returns what they did."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from tests.core.permission.differential import namespace, sandbox
from tests.core.permission.differential.facts import Facts
from tests.core.permission.differential.launchers import Launcher

SHELLS = tuple(name for name in ("bash", "dash") if Path("/bin", name).exists())


_SYSTEM = "not given by this system: "  # any other error is a fault of ours, and no reason to skip


class NoNamespaces(Exception):
    """This machine gives us no private namespaces; the text says why."""


class Executor:
    """One sandbox that runs one line at a time. The launcher starts the shell."""

    def __init__(self, launcher: Launcher | None = None) -> None:
        ours, theirs = socket.socketpair()
        errors, report = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            ours.close()
            _in_namespaces(
                theirs, launcher or Launcher(), lambda why: os.write(report, why.encode())
            )
        theirs.close()
        os.close(report)
        self._socket = ours
        self._file = ours.makefile("rwb")
        self._errors = errors
        self._asked: deque[tuple[str, str]] = deque()
        self._answers: dict[tuple[str, str], bytes] = {}

    def run(self, shell: str, line: str) -> Facts:
        return Facts.decoded(self.answer(shell, line))

    def answer(self, shell: str, line: str) -> bytes:
        """What the sandbox reports, as `Facts.decoded` takes it."""
        key = (shell, line)
        if key not in self._answers and key not in self._asked:
            self.ask([key])
        while key not in self._answers:
            self._answers[self._asked.popleft()] = self._next_answer()
        return self._answers.pop(key)

    def ask(self, runs: Iterable[tuple[str, str]]) -> None:
        """Lets the sandbox begin with these; `answer` waits for each."""
        keys = list(runs)
        self._asked += keys
        with suppress(OSError):  # it ended: the answer says why
            self._file.write(b"".join(json.dumps(key).encode() + b"\n" for key in keys))
            self._file.flush()

    def _next_answer(self) -> bytes:
        try:
            answer = self._file.readline()
        except OSError:
            answer = b""
        if not answer:
            why = os.read(self._errors, 4096).decode() or "the sandbox ended"
            raise NoNamespaces(why) if why.startswith(_SYSTEM) else RuntimeError(why)
        return answer

    def close(self) -> None:
        self._file.close()
        self._socket.close()
        os.close(self._errors)
        os.waitpid(self._pid, 0)


def _in_namespaces(
    connection: socket.socket, launcher: Launcher, report: Callable[[str], object]
) -> None:
    """Never returns. This process waits; its child is the first one of the pid namespace."""
    try:
        launcher.prepare()
        namespace.enter_all()
        child = os.fork()
        if child == 0:
            _die_with_parent()
            sandbox.main(connection, launcher)
            os._exit(0)
        connection.close()
        os.waitpid(child, 0)
    except BaseException as error:
        system = _SYSTEM if isinstance(error, OSError) else ""
        report(f"{system}{type(error).__name__}: {error}")
    finally:
        os._exit(0)


def _die_with_parent() -> None:
    import ctypes

    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
