"""Runs a shell command typed by the user, shows its output and sends it to the agent."""

from __future__ import annotations

import asyncio
import codecs
import os
import re
import secrets
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from rich.console import Group, RenderableType
from rich.text import Text

from tillerman.agents.stdio.pipes import PipeReader
from tillerman.core.agent import Exit
from tillerman.core.errors import UsageError
from tillerman.core.terminal_sanitizer import clean
from tillerman.surfaces.rendering import formatting
from tillerman.surfaces.tui.terminal.ansi_colors import colored

MOST = 400_000  # characters; only the end of longer output is stored
SHOWN = 15  # lines
UNFOLDED = 2_000
WIDE = 1_000  # assumed average characters per line
OPENING = "I ran this in "  # start of a prompt made from output, to exclude it from the history
REST = 0.02  # seconds between reads, to limit redraws during heavy output
HANDED = 60_000  # characters sent to the agent, from the end
_QUIET = {"TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0"}


class ShellLine:
    """`report` is called when there is new output."""

    def __init__(self, command: str, folder: Path, report: Callable[[], None]) -> None:
        self.command = command
        self.folder = folder
        self.exit: Exit | None = None
        self.cancelled = False
        self.left_out = 0  # characters
        self._report = report
        self._began = time.monotonic()
        self._seconds: float | None = None
        self._output: deque[str] = deque()
        self._size = 0
        self._breaks = 0  # number of line breaks
        self._stop = asyncio.Event()

    @property
    def running(self) -> bool:
        return self._seconds is None

    @property
    def output(self) -> str:
        return "".join(self._output)

    def cancel(self) -> None:
        self.cancelled = True
        self._stop.set()

    async def run(self, records: Path) -> None:
        """Runs in the user's shell with their environment; all its processes end with it."""
        from tillerman.supervision.client.warden_client import WardenClient

        warden = await WardenClient.start(records=records, marker=f"shell-{secrets.token_hex(4)}")
        try:
            shell = os.environ.get("SHELL") or "/bin/sh"
            argv = ["/bin/sh", "-c", 'exec "$0" -c "$1" 2>&1', shell, self.command]
            env = {**os.environ, **_QUIET}
            try:
                child = await warden.spawn(argv, cwd=self.folder, env=env, stdin=False)
            except OSError as error:
                raise UsageError(
                    f"the command cannot be run: {error.strerror}",
                    hint="check that `sh` is on PATH",
                ) from None
            await self._receive(child.stdout, child.stderr, asyncio.create_task(child.wait()))
            await child.kill()  # remaining child processes
        finally:
            self._seconds = time.monotonic() - self._began
            await asyncio.shield(warden.close())
            self._report()

    async def _receive(self, stdout: int, stderr: int, ending: asyncio.Task[Exit]) -> None:
        reported, unused = PipeReader(stdout, rest=REST), PipeReader(stderr)
        stopping = asyncio.create_task(self._stop.wait())
        reading = asyncio.create_task(self._read(reported))
        try:
            either: set[asyncio.Task[Exit] | asyncio.Task[bool]] = {ending, stopping}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if ending.done():
                self.exit = ending.result()
                reported.finish()
                await reading
        finally:
            for task in (stopping, reading, ending):
                task.cancel()
            reported.close()
            unused.close()

    async def _read(self, pipe: PipeReader) -> None:
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        while chunk := await pipe.read():
            message = decode(chunk)
            self._output.append(message)
            self._size += len(message)
            self._breaks += message.count("\n")
            while self._size - len(self._output[0]) > MOST:
                gone = len(self._output.popleft())
                self._size -= gone
                self.left_out += gone
            self._report()

    # -- rendering and prompt ----------------------------------------------------------------------

    @property
    def how(self) -> str:
        if self._seconds is None:
            return "running · esc to stop"
        length = formatting.duration(self._seconds)
        if self.cancelled:
            return f"cancelled · {length}"
        if self.exit is None:
            return f"did not start · {length}"
        how = f"signal {self.exit.signal}" if self.exit.signal else f"exit code {self.exit.code}"
        return f"{how} · {length}"

    def __rich__(self) -> RenderableType:
        return self._drawn(SHOWN)

    @property
    def whole(self) -> RenderableType:
        return _Whole(self)

    def _drawn(self, most: int) -> RenderableType:
        lines = _lines(self._end(most * WIDE))[-most:]
        parts: list[RenderableType] = []
        if (hidden := self._breaks - most) > 0:
            parts.append(Text(f"… {hidden} earlier lines", style="dim"))
        if lines:
            parts.append(colored("\n".join(lines)))
        good = self.running or (self.exit is not None and self.exit.clean)
        foot = Text(self.how, style="cyan" if self.running else "green" if good else "red")
        if not self.running:
            foot.append("   !! sends it to the agent", style="dim")
        return Group(*parts, foot)

    def _end(self, most: int) -> str:
        last, size = [], 0
        for part in reversed(self._output):
            last.append(part)
            size += len(part)
            if size >= most:
                break
        return "".join(reversed(last))[-most:]

    def handed_over(self) -> str:
        """Prompt for the agent: the command, how it ended and the end of its output."""
        reported = clean("\n".join(_lines(self.output)))
        cut = len(reported) > HANDED or self.left_out
        reported = reported[-HANDED:]
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", reported)), default=0))
        head = f"{OPENING}{self.folder}:\n\n{fence}sh\n{self.command}\n{fence}\n\n"
        if not reported.strip():
            return f"{head}{self.how}; no output."
        part = "the end of its output" if cut else "its output"
        return f"{head}{self.how}; {part}:\n\n{fence}\n{reported}\n{fence}"


class _Whole:
    """Renders all stored lines."""

    def __init__(self, line: ShellLine) -> None:
        self._line = line

    def __rich__(self) -> RenderableType:
        return self._line._drawn(UNFOLDED)


def _lines(message: str) -> list[str]:
    """Lines as finally displayed, with carriage returns applied."""
    text = message.replace("\r\n", "\n").rstrip()
    return [line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n")] if text else []
