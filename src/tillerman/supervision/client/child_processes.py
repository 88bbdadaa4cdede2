"""Handles of supervised child processes: with pipes, or with output files."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from tillerman.core.agent import Exit
from tillerman.core.errors import SupervisionUnavailable
from tillerman.supervision.exec_gate.settings import not_enforced
from tillerman.supervision.warden import exit_file

Send = Callable[..., None]  # sends a message to the warden
GONE_WITHIN = 12.0  # 5 s for the keeper, 5 s for the warden, and a margin
_ANSWERED_WITHIN = 2.0  # seconds; a keeper that is not stopped answers at once
INPUT_STEP = 32 * 1024  # bytes per message: fits the socket buffer of a keeper that does not read


def exit_of(status: int) -> Exit:
    if os.WIFSIGNALED(status):
        return Exit(None, os.WTERMSIG(status))
    return Exit(os.WEXITSTATUS(status), None)


class Sizes(NamedTuple):
    """Bytes that a program wrote so far, and bytes of them stored in the files."""

    stdout: int
    stderr: int
    stdout_kept: int
    stderr_kept: int

    @property
    def total(self) -> int:
        return self.stdout + self.stderr


class ProcessEnded(NamedTuple):
    """Exit status of a program with output files."""

    exit: Exit
    at: float  # seconds since the epoch
    sizes: Sizes
    why: str  # a reason constant of `exit_file`; empty when the program ended by itself

    @classmethod
    def of(cls, end: exit_file.ExitFile) -> ProcessEnded:
        return cls(exit_of(end.status), end.at, Sizes(*end.sizes), end.why)

    @classmethod
    def read(cls, folder: Path) -> ProcessEnded | None:
        """Reads the exit file that the keeper wrote in the folder of the output files."""
        try:
            number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            found = exit_file.read(number)
        finally:
            os.close(number)
        return cls.of(found) if found else None


class _Supervised:
    def __init__(self, send: Send, number: int) -> None:
        loop = asyncio.get_running_loop()
        self.pid = 0
        self.number = number
        self._send = send
        self._started: asyncio.Future[tuple[int, str]] = loop.create_future()
        self._exit: asyncio.Future[Exit] = loop.create_future()
        self._gone: asyncio.Future[tuple[int, ...]] = loop.create_future()
        self.mount_failures: dict[str, str] = {}  # path -> reason
        self._mounting: deque[asyncio.Future[dict[str, str]]] = deque()

    async def started(self) -> tuple[int, str]:
        """Returns pid and start time in ticks; together they identify the process."""
        return await asyncio.shield(self._started)

    @property
    def gone(self) -> bool:
        """True when the program and all of its descendants have ended."""
        return self._gone.done()

    @property
    def running(self) -> bool:
        return self._started.done() and not self.gone

    def receive(self, word: str, rest: list[Any]) -> bool:
        """Handles a message about the program. Returns True if it is the last one."""
        match word, rest:
            case "started", [pid, start]:
                if not self._started.done():
                    self.set_started(pid, start)
            case "failed", [number, text, name]:
                name = os.fsdecode(name) if name is not None else None
                self.fail_start(OSError(number, text, name))
                return True
            case "unable", [text]:
                self.fail_start(_not_started(text))
                return True
            case "unenforced", [text]:
                self.fail_start(not_enforced(text))
                return True
            case "mounted", [failed]:
                self._mounted(failed)
            case "exited", [status]:
                self._exit.set_result(exit_of(status))
            case "gone", [left]:
                self.fail_start(_not_started("it was killed before it started"))
                self._gone.set_result(tuple(left))
                return True
        return False

    def set_started(self, pid: int, start: str) -> None:
        self.pid = pid
        self._started.set_result((pid, start))

    def fail_start(self, error: Exception) -> None:
        """Handles that it will not start, unless it has, and that nothing more is mounted."""
        self._stop_mounting()
        if not self._started.done():
            self._started.set_exception(error)
            self._started.exception()  # marks it as retrieved: no caller may be waiting for it

    def mounting(self) -> asyncio.Future[dict[str, str]]:
        """Returns a future with the result of the next mount request to the keeper."""
        report: asyncio.Future[dict[str, str]] = asyncio.get_running_loop().create_future()
        self._mounting.append(report)
        return report

    def _mounted(self, failed: list[tuple[bytes, str]]) -> None:
        self.mount_failures = {os.fsdecode(path): why for path, why in failed}
        if self._started.done() and self._mounting:
            report = self._mounting.popleft()
            if not report.done():
                report.set_result(self.mount_failures)

    def _stop_mounting(self) -> None:
        for report in self._mounting:
            if not report.done():
                report.set_result({})
        self._mounting.clear()

    def signal(self, number: int) -> None:
        """Signals only the program, not its children. No effect once it has ended."""
        self._send("signal", self.number, int(number))

    async def kill(self) -> None:
        """Kills the program and all of its descendants; returns when all have ended."""
        if not self._gone.done():
            self._send("kill", self.number)
        try:
            async with asyncio.timeout(GONE_WITHIN):
                left = await asyncio.shield(self._gone)
        except TimeoutError:
            left = (self.pid,)
        if left:
            raise SupervisionUnavailable(
                f"could not be terminated: process {', '.join(map(str, left))}",
                hint="it runs as another user or hangs in the kernel; terminate it manually",
            )

    def lose(self, left: tuple[int, ...]) -> None:
        """Handles a killed warden, and with it a killed program. `left`: processes that remain."""
        if not self._exit.done():
            self._exit.set_result(Exit(None, signal.SIGKILL))
        self._gone.set_result(left)


class ChildProcess(_Supervised):
    """One program with pipes. Its pipe ends are raw and non-blocking; the caller closes them."""

    def __init__(
        self, send: Send, number: int, stdin: int | None, stdout: int, stderr: int
    ) -> None:
        super().__init__(send, number)
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr

    async def wait(self) -> Exit:
        """Waits for the program itself. Its children may hold the pipes open for longer."""
        return await asyncio.shield(self._exit)

    def close_pipes(self) -> None:
        for number in (self.stdin, self.stdout, self.stderr):
            if number is not None:
                os.close(number)


class FileBackedProcess(_Supervised):
    """A program whose output its keeper writes to files."""

    def __init__(self, send: Send, number: int, name: str) -> None:
        super().__init__(send, number)
        loop = asyncio.get_running_loop()
        self.name = name
        self.lasting = False
        self._end: asyncio.Future[ProcessEnded | None] = loop.create_future()
        self._lasts: asyncio.Future[None] = loop.create_future()
        self._fed: asyncio.Future[str] | None = None
        self._feeding = asyncio.Lock()
        self._watches: list[tuple[int, asyncio.Future[Sizes]]] = []

    async def wait(self) -> ProcessEnded | None:
        """Waits for the end of the whole process tree, with all output written.

        Returns None when the warden was killed. If the keeper could still write the exit file, it
        is in the folder.
        """
        return await asyncio.shield(self._end)

    async def last(self) -> bool:
        """Lets the program outlive its harness from now on; False if it ended first."""
        if not self.lasting:
            self._send("last", self.number)
            await self._first(self._lasts)
        return self.lasting and not self._end.done()

    async def write(self, data: bytes, *, eof: bool = False) -> str:
        """Writes to stdin. Returns `taken`, or `full` or `closed` when the rest was not written."""
        async with self._feeding:
            answer = "taken"
            parts = [data[at : at + INPUT_STEP] for at in range(0, len(data), INPUT_STEP)] or [b""]
            for number, part in enumerate(parts, 1):
                answer = await self._write(part, eof=eof and number == len(parts))
                if answer != "taken":
                    break
            return answer

    async def _write(self, data: bytes, *, eof: bool) -> str:
        self._fed = asyncio.get_running_loop().create_future()
        self._send("input", self.number, data, eof)
        await self._first(self._fed, _ANSWERED_WITHIN)
        if self._fed.done():
            return self._fed.result()
        return "closed" if self._end.done() else "full"

    async def grown(self, seen: int = -1) -> Sizes | None:
        """Returns the sizes once they exceed `seen` bytes in all; None if the program ended first.

        The keeper reports growth once per request, and only on request.
        """
        if self._end.done():
            return None
        answer: asyncio.Future[Sizes] = asyncio.get_running_loop().create_future()
        self._watches.append((seen, answer))
        self._send("watch", self.number, seen)
        try:
            await self._first(answer)
            return answer.result() if answer.done() else None
        finally:
            self._watches = [one for one in self._watches if one[1] is not answer]

    async def _first(self, answer: asyncio.Future[Any], within: float | None = None) -> None:
        """Waits for the answer, for the end of the program, or for the timeout."""
        either: set[asyncio.Future[Any]] = {answer, self._end}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED, timeout=within)

    def receive(self, word: str, rest: list[Any]) -> bool:
        match word, rest:
            case "ended", [status, at, sizes, why]:
                if not self._end.done():
                    self._end.set_result(ProcessEnded(exit_of(status), at, Sizes(*sizes), why))
            case "grown", [sizes]:
                self._report_growth(Sizes(*sizes))
            case "lasting", []:
                self.lasting = True
                if not self._lasts.done():
                    self._lasts.set_result(None)
            case "input", [answer]:
                if self._fed and not self._fed.done():
                    self._fed.set_result(answer)
            case _:
                return super().receive(word, rest)
        return False

    def _report_growth(self, sizes: Sizes) -> None:
        still = []
        for seen, answer in self._watches:
            if sizes.total <= seen:
                still.append(seen)
            elif not answer.done():
                answer.set_result(sizes)
        if still:
            self._send("watch", self.number, min(still))

    def lose(self, left: tuple[int, ...]) -> None:
        if not self._end.done():
            self._end.set_result(None)
        super().lose(left)


def _not_started(reason: str) -> SupervisionUnavailable:
    return SupervisionUnavailable(
        f"the program could not be started: {reason}",
        hint="`tillerman doctor` shows which supervision levels work",
    )


def open_files(folder: Path) -> tuple[int, int, int]:
    """Opens the folder and creates the files in it: stdout, stderr and the exit file."""
    opened: list[int] = []
    try:
        opened.append(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        opened.extend(os.open(name, flags, 0o600, dir_fd=opened[0]) for name in exit_file.FILES)
        os.close(os.open(exit_file.NAME, flags, 0o600, dir_fd=opened[0]))
    except BaseException:
        close_files(opened)
        raise
    return opened[0], opened[1], opened[2]


def close_files(files: Iterable[int]) -> None:
    for number in files:
        os.close(number)
