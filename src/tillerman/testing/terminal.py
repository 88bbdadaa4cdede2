"""Runs a program in a real terminal (tmux): sends keys and reads the screen."""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

MAX_WAIT = 30.0


class Tmux:
    """A separate tmux server for one program: `with Tmux(folder) as terminal: terminal.run(…)`."""

    def __init__(self, folder: Path, columns: int = 100, lines: int = 30) -> None:
        self._socket = str(folder / f"tmux{time.monotonic_ns()}")  # the previous one may linger
        self._size = ("-x", str(columns), "-y", str(lines))
        self._code = Path(f"{self._socket}.code")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._tmux("kill-server")

    def run(self, words: Sequence[str], environment: Mapping[str, str], cwd: Path) -> None:
        """Runs with only these variables and TERM."""
        pairs = [f"{name}={value}" for name, value in environment.items()]
        command = shlex.join(["env", "-i", "TERM=xterm-256color", *pairs, *words])
        where = ("-c", str(cwd))
        code = shlex.quote(str(self._code))
        line = f"{command}; echo $? >{code}.; mv {code}. {code}"  # tmux does not always report it
        self._tmux("-f", os.devnull, "new-session", "-d", *where, *self._size, line)

    @property
    def screen(self) -> str:
        return self._tmux("capture-pane", "-p", "-J").stdout

    @property
    def pid(self) -> int:
        """The pid of the program."""
        shell = int(self._tmux("display-message", "-p", "#{pane_pid}").stdout)
        return int(Path(f"/proc/{shell}/task/{shell}/children").read_text().split()[0])

    def type(self, text: str) -> None:
        self._tmux("send-keys", "-l", text)

    def press(self, *keys: str) -> None:
        """Sends keys by tmux's names: `Enter`, `Escape`, `C-q`."""
        self._tmux("send-keys", *keys)

    def resize(self, columns: int, lines: int) -> None:
        self._tmux("resize-window", "-x", str(columns), "-y", str(lines))

    def until(self, seen: str | Callable[[str], bool], seconds: float = MAX_WAIT) -> str:
        """Waits until the screen shows it, and returns the screen."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            screen = self.screen
            if seen in screen if isinstance(seen, str) else seen(screen):
                return screen
            time.sleep(0.002)
        raise AssertionError(f"not seen in {seconds:g} s: {seen}\n{self.screen}")

    def ended(self, seconds: float = MAX_WAIT) -> int:
        """Waits for the end of the program; returns its exit code."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self._code.exists():
                return int(self._code.read_text())
            time.sleep(0.01)
        raise AssertionError(f"it did not end in {seconds:g} s:\n{self.screen}")

    def _tmux(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["tmux", "-S", self._socket, *words], capture_output=True, text=True, check=False
        )
