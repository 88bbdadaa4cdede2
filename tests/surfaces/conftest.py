"""The real program in a separate home and project; on a pipe or on a terminal."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.stand_ins.warm_python import Forked, run_tillerman, start_tillerman

MAX_WAIT = 15.0
Program = Forked | subprocess.Popen[bytes]
_CONTROL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\r")


class Bench:
    """A user's machine in a folder."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.project = folder / "project"
        self.home.mkdir()
        self.project.mkdir()
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "TILLERMAN_HOME": str(folder / "tillerman"),
            "TILLERMAN_MOCK_STATE": str(folder / "mock"),
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "COLUMNS": "80",
            "LINES": "40",
        }
        self._processes: list[Program] = []
        self._terminals: list[Terminal] = []

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "tillerman", *words]

    def run(
        self, *words: str, input: str | bytes | None = None, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        data = input.encode() if isinstance(input, str) else input
        return run_tillerman(
            words, cwd=self.project, env=self.environment | environment, input=data
        )

    def mock(self, steps: list[dict[str, Any]], *words: str, **more: Any) -> Any:
        """`tillerman run` with a script for the embedded agent."""
        return self.run("run", "-a", "mock", *words, json.dumps(steps), **more)

    def start(self, *words: str, **environment: str) -> Program:
        env = self.environment | environment
        process = start_tillerman(words, cwd=self.project, env=env, stdin=False)
        self._processes.append(process)
        return process

    def terminal(
        self, *words: str, size: tuple[int, int] = (80, 40), **environment: str
    ) -> Terminal:
        """A terminal of this many columns and lines."""
        env = self.environment | environment
        terminal = Terminal(self.command(*words), self.project, env, size)
        self._processes.append(terminal.process)
        self._terminals.append(terminal)
        return terminal

    def close(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.kill()
                process.wait()
            for stream in (process.stdout, process.stderr):
                if stream:
                    stream.close()
        for terminal in self._terminals:
            terminal.close()


def _as_a_login_shell_would() -> None:
    """A controlling terminal of its own, and Ctrl-C not ignored, unlike in jobs of a script."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)


_END = b"\x1b]the program has ended\x07"


class Terminal:
    """A program on a pseudo-terminal: types keys, waits for output."""

    def __init__(
        self,
        command: list[str],
        cwd: Path,
        environment: dict[str, str],
        size: tuple[int, int] = (80, 40),
    ) -> None:
        self._master, slave = pty.openpty()
        columns, lines = size
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.process: subprocess.Popen[bytes] = subprocess.Popen(
            command,
            cwd=cwd,
            env=environment,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=_as_a_login_shell_would,  # noqa: PLW1509
        )
        self.before = termios.tcgetattr(slave)
        self._slave = slave  # stays open: the end of the program is not the end of the terminal
        self._open = [slave, self._master]
        self.raw = b""

    @property
    def text(self) -> str:
        return _CONTROL.sub("", self.raw.decode("utf-8", "replace"))

    def wait_for(self, words: str, since: int = 0) -> int:
        """Waits for the text; returns where it ends."""
        deadline = time.monotonic() + MAX_WAIT
        while (at := self.text.find(words, since)) < 0:
            if time.monotonic() > deadline:
                raise AssertionError(f"{words!r} was never seen in:\n{self.text}")
            self._read(0.1)
        return at + len(words)

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def press_until_end(self, key: str) -> int:
        """A key that is pressed while a dialog is being drawn is not an answer yet."""
        deadline = time.monotonic() + MAX_WAIT
        while self.process.poll() is None and time.monotonic() < deadline:
            self.press(key)
            self._read(0.5)
        return self.end()

    def interrupt(self) -> None:
        self.press("\x03")

    def end(self) -> int:
        """The program's exit code."""
        deadline = time.monotonic() + MAX_WAIT
        while self.process.poll() is None:
            if time.monotonic() > deadline:
                raise AssertionError(f"the program did not end:\n{self.text}")
            self._read(0.05)
        # the kernel may still be passing on what was written: read up to a mark of our own
        os.write(self._slave, _END)
        while _END not in self.raw and self._read(5):
            pass
        self.raw = self.raw.replace(_END, b"")
        return self.process.returncode

    @property
    def modes(self) -> list[Any]:
        return termios.tcgetattr(self._slave)

    def close(self) -> None:
        while self._open:
            os.close(self._open.pop())

    def listen(self, seconds: float) -> None:
        """Takes what is printed in this time."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self._read(0.1)

    def _read(self, max_wait: float) -> bool:
        if not select.select([self._master], [], [], max_wait)[0]:
            return False
        try:
            data = os.read(self._master, 65536)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return False
        self.raw += data
        return bool(data)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.close()


def wait_for_line(process: Program, words: str) -> str:
    """The next line of its standard output that contains the text."""
    assert process.stdout
    deadline = time.monotonic() + MAX_WAIT
    while time.monotonic() < deadline:
        line = process.stdout.readline().decode()
        if words in line:
            return line
        if not line:
            break
    raise AssertionError(f"{words!r} was never printed")


def wait_until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + MAX_WAIT
    while not true():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.02)
