"""The harness's side of supervision: a warden per session, a child per program."""

from __future__ import annotations

import asyncio
import marshal
import os
import signal
import socket
import subprocess
from collections import deque
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from bridle.core.agent import Exit, Word
from bridle.core.errors import SupervisionUnavailable
from bridle.supervision.channel import Channel, frame, rights
from bridle.supervision.launch import Launched, command, launch, open_pipes, spawn_message
from bridle.supervision.places import Places
from bridle.supervision.secret_files import variables_written, written
from bridle.supervision.sweep import Swept, sweep, sweep_one

__all__ = [
    "Child",
    "Launched",
    "Level",
    "Swept",
    "Warden",
    "launch",
    "probe",
    "sweep",
]

_GONE_WITHIN = 12.0  # the keeper's five seconds, then the warden's, and some


class Level(StrEnum):
    NAMESPACE = "namespace"
    CGROUP = "cgroup"
    SUBREAPER = "subreaper"
    GROUP = "group"


def _exit_of(status: int) -> Exit:
    if os.WIFSIGNALED(status):
        return Exit(None, os.WTERMSIG(status))
    return Exit(os.WEXITSTATUS(status), None)


class Child:
    """One program. Its pipe ends are raw, non-blocking, and the caller's to close."""

    def __init__(
        self, warden: Warden, number: int, stdin: int | None, stdout: int, stderr: int
    ) -> None:
        loop = asyncio.get_running_loop()
        self.pid = 0
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr
        self._warden = warden
        self._number = number
        self._started: asyncio.Future[int] = loop.create_future()
        self._exit: asyncio.Future[Exit] = loop.create_future()
        self._gone: asyncio.Future[tuple[int, ...]] = loop.create_future()

    async def wait(self) -> Exit:
        """The program's own end. Its pipes may stay open a moment longer, held by its children."""
        return await asyncio.shield(self._exit)

    def signal(self, number: int) -> None:
        """To the program alone, not to its children; nothing happens once it has ended."""
        self._warden._send("signal", self._number, int(number))

    async def kill(self) -> None:
        """End the program and everything it started; returns when all of it is gone."""
        if not self._gone.done():
            self._warden._send("kill", self._number)
        try:
            async with asyncio.timeout(_GONE_WITHIN):
                left = await asyncio.shield(self._gone)
        except TimeoutError:
            left = (self.pid,)
        if left:
            raise SupervisionUnavailable(
                f"would not end: process {', '.join(map(str, left))}",
                hint="it runs as another user or hangs in the kernel; end it by hand",
            )

    def _close_pipes(self) -> None:
        for number in (self.stdin, self.stdout, self.stderr):
            if number is not None:
                os.close(number)


class Warden:
    """The process that is parent to a session's programs. Start it with `start`."""

    def __init__(self, launched: Launched) -> None:
        self.level = Level.GROUP
        self.notes: tuple[str, ...] = ()
        self.pid = launched.process.pid
        self._process = launched.process
        self._lifeline = launched.lifeline
        self.folder = launched.folder  # the user's alone, and gone with the warden
        self.places = Places(str(launched.folder))
        self._channel = Channel(launched.control)
        self._unsent: deque[tuple[bytes, Sequence[int]]] = deque()
        self._children: dict[int, Child] = {}
        self._count = 0
        self._loop = asyncio.get_running_loop()
        self._hello: asyncio.Future[None] = self._loop.create_future()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._mourning: asyncio.Task[None] | None = None
        self._last_words = ""
        self._early = launched.early
        if self._early:
            self._count = 1
            self._early_child = self._add_child(1, *self._early.pipes)

    @classmethod
    async def start(cls, *, level: str = "auto", records: Path, marker: str) -> Warden:
        """Start one; `level` is refused, never lowered, unless it is `auto`."""
        return await cls.attach(launch(level=level, records=records, marker=marker))

    @classmethod
    async def attach(cls, launched: Launched) -> Warden:
        """Take over a warden that `launch` started earlier."""
        warden = cls(launched)
        launched.control.setblocking(False)
        warden._loop.add_reader(launched.control.fileno(), warden._read)
        try:
            await warden._hello
        except BaseException:
            await warden.close()
            raise
        return warden

    async def spawn(
        self, argv: Sequence[Word], *, cwd: Path | str, env: Mapping[str, Word], stdin: bool = True
    ) -> Child:
        """Run a program with exactly `env` and the marker; OSError as exec or chdir gave it."""
        if self._ended.done():
            raise self._lost()
        words = written(self.folder, argv)
        variables = variables_written(self.folder, env)
        if child := self._take_early(words, str(cwd), variables, stdin=stdin):
            return await self._started(child)
        self._count += 1
        message = spawn_message(self._count, words, cwd, variables)
        child, theirs = self._open_child(self._count, stdin=stdin)
        self._send(*message, files=theirs)
        return await self._started(child)

    async def _started(self, child: Child) -> Child:
        try:
            child.pid = await child._started
        except BaseException:
            self._forget(child)
            raise
        return child

    def _take_early(
        self, argv: list[str], cwd: str, env: dict[str, str], *, stdin: bool
    ) -> Child | None:
        """The program that was asked for at the launch, if it is this one."""
        early, self._early = self._early, None
        if early is None:
            return None
        child = self._early_child  # it may be gone already
        if stdin and (early.argv, early.cwd, early.env) == (argv, cwd, env):
            return child
        self._forget(child)
        return None

    def _forget(self, child: Child) -> None:
        if not child._gone.done() and not self._ended.done():
            self._send("kill", child._number)
        child._close_pipes()

    async def close(self) -> None:
        """End every tree, then the warden."""
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1
            if not self._ended.done():
                self._channel.socket.shutdown(socket.SHUT_WR)
        try:
            async with asyncio.timeout(_GONE_WITHIN):
                await asyncio.shield(self._ended)
        except TimeoutError:
            self._process.kill()
            await self._ended
        if self._mourning:
            await self._mourning

    def _open_child(self, number: int, *, stdin: bool) -> tuple[Child, tuple[int, int, int]]:
        """The child with our ends of its pipes, and the ends that are to be its own."""
        ours, theirs = open_pipes()
        if stdin:
            return self._add_child(number, *ours), theirs
        os.close(ours[0])
        os.close(theirs[0])
        nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        return self._add_child(number, None, *ours[1:]), (nothing, *theirs[1:])

    def _add_child(self, number: int, stdin: int | None, stdout: int, stderr: int) -> Child:
        child = self._children[number] = Child(self, number, stdin, stdout, stderr)
        return child

    def _send(self, *message: Any, files: Sequence[int] = ()) -> None:
        """Queue a message with files that are the warden's from now on."""
        self._unsent.append((frame(message), files))
        self._flush()

    def _flush(self) -> None:
        try:
            while self._unsent:
                data, files = self._unsent[0]
                sent = self._channel.socket.sendmsg([data], rights(files))
                for number in files:
                    os.close(number)
                if sent == len(data):
                    self._unsent.popleft()
                else:
                    self._unsent[0] = (data[sent:], ())
        except BlockingIOError:
            self._loop.add_writer(self._channel.fileno(), self._flush)
        except OSError:
            self._drop_unsent()  # the warden is gone, which `_read` is about to see
        else:
            self._loop.remove_writer(self._channel.fileno())

    def _drop_unsent(self) -> None:
        for _, files in self._unsent:
            for number in files:
                os.close(number)
        self._unsent.clear()

    def _read(self) -> None:
        try:
            messages = self._channel.receive()
        except BlockingIOError:
            return
        except EOFError:
            self._end()
            return
        for message in messages:
            self._take(message)

    def _take(self, message: tuple[Any, ...]) -> None:
        match message:
            case ("hello", level, notes, pid):
                self.level, self.notes, self.pid = Level(level), notes, pid
                self._hello.set_result(None)
            case ("refused", level, reason):
                self._hello.set_exception(
                    SupervisionUnavailable(
                        f"supervision level {level} is not to be had here: {reason}",
                        hint=_HINTS.get(level, _HINTS["auto"]),
                    )
                )
            case (word, number, *rest) if child := self._children.get(number):
                self._take_news(child, word, rest)

    def _take_news(self, child: Child, word: str, rest: list[Any]) -> None:
        match word, rest:
            case "started", [pid]:
                if not child._started.done():
                    child._started.set_result(pid)
            case "failed", [number, text, name]:
                name = os.fsdecode(name) if name is not None else None
                self._give_up(child, OSError(number, text, name))
            case "unable", [text]:
                self._give_up(child, _not_started(text))
            case "exited", [status]:
                child._exit.set_result(_exit_of(status))
            case "gone", [left]:
                self._give_up(child, _not_started("it was killed first"))
                child._gone.set_result(tuple(left))

    def _give_up(self, child: Child, error: Exception) -> None:
        """No more news of this child; if it has not started by now it never will."""
        del self._children[child._number]
        if not child._started.done():
            child._started.set_exception(error)

    def _end(self) -> None:
        """The warden has ended, because it was told to or because something killed it."""
        self._loop.remove_reader(self._channel.fileno())
        self._loop.remove_writer(self._channel.fileno())
        self._drop_unsent()
        self._channel.close()
        self._process.wait()  # its socket closed as it exited: no wait to speak of
        assert self._process.stderr is not None
        os.set_blocking(self._process.stderr.fileno(), False)
        said = (self._process.stderr.read() or b"").decode(errors="replace").splitlines()
        self._last_words = said[-1] if said else ""  # of a traceback, what went wrong
        self._process.stderr.close()
        greeted = self._hello.done()
        if not greeted:
            self._hello.set_exception(self._lost())
        for child in self._children.values():
            if not child._started.done():
                child._started.set_exception(self._lost())
        if greeted and self.folder.exists():
            self._mourning = self._loop.create_task(self._mourn())
        self._ended.set_result(None)

    async def _mourn(self) -> None:
        """After a killed warden the keepers end their trees; then nothing of them may be left."""
        swept: Swept | None = None
        deadline = self._loop.time() + _GONE_WITHIN
        while swept is None and self.folder.exists() and self._loop.time() < deadline:
            swept = await asyncio.to_thread(sweep_one, self.folder)
            if swept is None:  # a keeper is still at it
                await asyncio.sleep(0.01)
        for child in self._children.values():
            if not child._exit.done():
                child._exit.set_result(Exit(None, signal.SIGKILL))
            child._gone.set_result(swept.left if swept else ())
        self._children.clear()

    def _lost(self) -> SupervisionUnavailable:
        return SupervisionUnavailable(
            f"the warden has ended (exit {self._process.returncode}) {self._last_words}".strip(),
            hint="start the session again; `bridle doctor` shows what supervision works here",
        )


def _not_started(reason: str) -> SupervisionUnavailable:
    return SupervisionUnavailable(
        f"the program could not be started: {reason}",
        hint="`bridle doctor` shows what supervision works here",
    )


async def probe() -> dict[Level, str | None]:
    """Each level with the reason it is not taken here, None when it works."""
    found = await asyncio.to_thread(
        subprocess.run, command("levels"), stdout=subprocess.PIPE, env={}, check=True
    )
    return {Level(level): reason or None for level, reason in marshal.loads(found.stdout)}


_HINTS = {
    "auto": "`bridle doctor` shows what each level needs",
    "namespace": "run as root, allow user namespaces (sysctl user.max_user_namespaces),"
    ' or choose supervision = "auto"',
    "cgroup": "start inside a delegated group (systemd-run --user --scope -p Delegate=yes),"
    ' or choose supervision = "auto"',
    "subreaper": 'only Linux has it; choose supervision = "auto"',
}
