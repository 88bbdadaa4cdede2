"""The small parent of a session's programs: one keeper each, all ended when the harness is gone.

Runs as a process of its own, on the standard library alone; `launch` starts it. Messages in:
spawn, signal, kill. Messages out: hello or refused; then per program started or failed, exited,
gone. The harness's end of the socket closing, for whatever reason, ends everything.
"""

# pathlib and contextlib would cost every start some milliseconds
# ruff: noqa: PTH119, SIM105

from __future__ import annotations

import os
import select
import time

from bridle.supervision import kernel, levels, processes, records
from bridle.supervision.cgroup import Cgroup
from bridle.supervision.channel import Channel
from bridle.supervision.keeper import (
    END_WITHIN,
    Keeper,
    Program,
    end_group,
    wake_on_child_exit,
)
from bridle.supervision.namespace import fork_init
from bridle.supervision.processes import LINUX

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    import socket
    from typing import Any
else:  # the C halves: their Python wrappers cost every start 9 ms
    import _signal as signal
    import _socket as socket


class Kept:
    """A program that has a keeper, as the warden sees it."""

    def __init__(
        self,
        number: int,
        keeper: int,
        post: Channel,
        record: records.Record,
        group: Cgroup | None,
    ) -> None:
        self.number = number
        self.keeper = keeper
        self.post = post
        self.record = record
        self.group = group
        self.ended = False
        self.silent = False
        self.left: list[int] = []


class Warden:
    def __init__(
        self, harness: Channel, lifeline: int, place: levels.Place, lease: records.Lease
    ) -> None:
        self._harness = harness
        self._lifeline = lifeline
        self._place = place
        self._lease = lease
        self._marker = os.path.basename(lease.folder)
        self._boot = processes.boot_id()
        self._proc = os.open("/proc", os.O_RDONLY | os.O_CLOEXEC) if LINUX else None
        self._kept: dict[int, Kept] = {}
        self._ready = select.poll()

    def serve(self) -> None:
        woken = wake_on_child_exit()
        for number in (woken, self._harness.fileno()):
            self._ready.register(number, select.POLLIN)
        self._say("hello", self._place.level, self._place.notes, os.getpid())
        try:
            while True:
                events = {number for number, _ in self._ready.poll()}
                if self._harness.fileno() in events:
                    for message in self._harness.receive():
                        self._obey(message)
                for kept in [one for one in self._kept.values() if one.post.fileno() in events]:
                    if not self._listen(kept):
                        self._ready.unregister(kept.post.fileno())
                        kept.silent = True
                if woken in events:
                    os.read(woken, 4096)
                    self._reap()
        except EOFError:
            self._end_all(woken)

    def _obey(self, message: tuple[Any, ...]) -> None:
        match message:
            case ("spawn", number, argv, cwd, env):
                stdio = self._harness.take_files(3)
                try:
                    self._spawn(number, argv, cwd, env, stdio)
                except OSError as error:
                    self._say("unable", number, str(error))
                for file in stdio:
                    os.close(file)
            case ("signal", number, signal_number) if kept := self._kept.get(number):
                self._tell(kept, "signal", signal_number)
            case ("kill", number):
                if kept := self._kept.get(number):
                    self._end(kept)

    def _spawn(
        self,
        number: int,
        argv: list[bytes],
        cwd: bytes,
        env: dict[bytes, bytes],
        stdio: list[int],
    ) -> None:
        marker = f"{self._marker}.{number}"
        env[processes.MARKER.encode()] = marker.encode()
        program = Program(argv, cwd, env, stdio)
        record = records.Record(self._lease.folder, str(number))
        try:
            kept = self._keep(number, program, marker, record)
        except BaseException:
            record.remove()
            raise
        record.add_process(processes.find(kept.keeper))
        self._kept[number] = kept
        self._ready.register(kept.post.fileno(), select.POLLIN)
        self._tell(kept, "go")

    def _keep(self, number: int, program: Program, marker: str, record: records.Record) -> Kept:
        """Fork the program's keeper, which waits for the word that it is on record."""
        record.add("boot", self._boot)
        record.add("level", self._place.level)
        record.add("pipes", *(os.fstat(file).st_ino for file in program.stdio))
        group = None
        if self._place.level == "cgroup":
            group = Cgroup.create(f"bridle-{marker}")
            record.add("cgroup", group.folder)
        keeper = Keeper(program, level=self._place.level, marker=marker, record=record, group=group)
        ours, theirs = (Channel(end) for end in socket.socketpair())
        pid = self._fork()
        if pid == 0:
            keeper.run(theirs, self._lifeline, self._lease.number, self._proc)
        theirs.close()
        return Kept(number, pid, ours, record, group)

    def _fork(self) -> int:
        if self._place.level == "namespace":
            return fork_init(user=self._place.user)
        return os.fork()

    def _say(self, *message: Any) -> None:
        try:
            self._harness.send(*message)
        except OSError:
            pass  # the harness is gone, which `serve` is about to read

    def _tell(self, kept: Kept, *message: Any) -> None:
        try:
            kept.post.send(*message)
        except OSError:
            pass  # the keeper is ending by itself; SIGCHLD follows

    def _listen(self, kept: Kept) -> bool:
        """Pass a keeper's news on; False when there is none. It is gone when it is reaped."""
        try:
            messages = kept.post.receive()
        except (EOFError, BlockingIOError):
            return False
        for word, *rest in messages:
            if word == "left":
                kept.left = rest[0]
                continue
            kept.ended = kept.ended or word != "started"
            self._say(word, kept.number, *rest)
        return True

    def _end(self, kept: Kept) -> None:
        if self._place.level == "namespace":
            processes.send(kept.keeper, signal.SIGKILL)
        else:
            self._tell(kept, "kill")

    def _reap(self) -> None:
        keepers = {kept.keeper: kept for kept in self._kept.values()}
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                if kept := keepers.get(pid):
                    self._gone(kept, clean=status == 0)
        except ChildProcessError:
            return

    def _gone(self, kept: Kept, *, clean: bool) -> None:
        """A keeper has ended: its last words, what it could not finish, and the news."""
        del self._kept[kept.number]
        self._hear_out(kept)
        if kept.group:
            kept.group.kill(END_WITHIN)
        if not clean and self._place.level != "namespace":
            kept.left = sorted(self._end_strays(kept))
        if not kept.ended:
            self._say("exited", kept.number, int(signal.SIGKILL))
        for pid in kept.left:  # what we could not end stays on record
            kept.record.add_process(processes.find(pid))
        if not kept.left:
            if kept.group:
                kept.group.remove()
            kept.record.remove()
        self._say("gone", kept.number, kept.left)

    def _hear_out(self, kept: Kept) -> None:
        kept.post.socket.setblocking(False)
        while self._listen(kept):
            pass
        if not kept.silent:
            self._ready.unregister(kept.post.fileno())
        kept.post.close()

    def _end_strays(self, kept: Kept) -> set[int]:
        """The orphans of a killed keeper are now children of ours."""
        if self._place.level == "group":
            end_group(0, f"{self._marker}.{kept.number}")
        others = {one.keeper for one in self._kept.values()}
        return processes.end_children(others, self._reap, END_WITHIN)

    def _end_all(self, woken: int) -> None:
        deadline = time.monotonic() + END_WITHIN
        ended = select.poll()
        ended.register(woken, select.POLLIN)
        for kept in list(self._kept.values()):
            self._end(kept)
        while self._kept and (left := deadline - time.monotonic()) > 0:
            if ended.poll(left * 1000):
                os.read(woken, 4096)
            self._reap()
        for kept in list(self._kept.values()):
            processes.send(kept.keeper, signal.SIGKILL)
        if not processes.end_children(frozenset(), self._reap, END_WITHIN):
            self._lease.remove()


def main(control: str, lifeline: str, wanted: str, folder: str) -> None:
    """The process `launch` starts. It outlives Ctrl-C and hang-ups: only the harness ends it."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    for inherited in (control, lifeline):
        os.set_inheritable(int(inherited), False)
    os.chdir("/")
    harness = Channel(socket.socket(fileno=int(control)))
    try:
        _serve(harness, int(lifeline), wanted, folder)
    except levels.Unavailable as error:
        harness.send("refused", error.level, error.reason)


def _serve(harness: Channel, lifeline: int, wanted: str, folder: str) -> None:
    if LINUX:
        kernel.name_process("bridle-warden")
        kernel.become_subreaper()
    place = levels.choose(wanted)
    Warden(harness, lifeline, place, records.Lease.open(folder)).serve()
