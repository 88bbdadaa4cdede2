"""Pool of a prestarted keeper with a forked child, to start commands faster.

Forking both, and their namespace, takes most of the time of a short command. The prestarted keeper
has no program yet and ends with the warden.
"""

# contextlib would cost every start some milliseconds
# ruff: noqa: SIM105

from __future__ import annotations

import errno
import os
import time

from tillerman.supervision.isolation.enforcement import enforce
from tillerman.supervision.linux import process_table
from tillerman.supervision.linux.cgroup import Cgroup
from tillerman.supervision.linux.process_table import LINUX
from tillerman.supervision.linux.syscalls import own_memory
from tillerman.supervision.protocol.channel import Channel, frame, rights
from tillerman.supervision.warden.keeper import Keeper, send, wake_on_child_exit
from tillerman.supervision.warden.output_pump import open_input, pump_of
from tillerman.supervision.warden.program import Program, enter
from tillerman.supervision.warden.records import ProgramRecord

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    import socket
    from collections.abc import Callable, Sequence
    from typing import Any, NoReturn

    from tillerman.supervision.exec_gate.entry import GateEntry

    Invocation = tuple[list[bytes], bytes, dict[bytes, bytes]]  # of a program: argv, cwd, env
    # stdin, cap of the output, confinement rules, enforcement
    RunOptions = tuple[bytes | bool | None, int, Any, dict[str, Any]]
    # What a spare does before its program is known, which must be of the same kind: whether its
    # execs are checked by the gate, and whether it drops the capabilities that could undo mounts.
    SpareKind = tuple[bool, bool]
else:
    import _signal as signal
    import _socket as socket

_STARTED_AFTER = 0.02  # seconds after a command started, unless it has ended
_AFTER_END = 0.003  # seconds during which its result is delivered and needs the CPU
_KEPT_FOR = 30.0  # seconds without a command
_LARGEST = 32 * 1024  # bytes of a request: fits the socket buffer of a process that does not read


class PrestartedKeeper:
    """The warden's handle of it. `gated`: whether its execs are checked by the gate."""

    def __init__(self, pid: int, channel: Channel, kind: SpareKind) -> None:
        self.pid = pid
        self.channel = channel
        self.kind = kind
        self.row = process_table.find(pid)

    def run(
        self,
        marker: str,
        group: str | None,
        program: Invocation,
        options: RunOptions,
        files: Sequence[int],
    ) -> None:
        """Has it run a program. Raises OSError when the request cannot be sent.

        A program that was sent once must not be run by another keeper. `files`: the program's
        record, its folder, the stdout and stderr files, and the lifeline unless it is lasting.
        """
        message = frame(("go", marker, group, program, options))
        if len(message) > _LARGEST:
            raise OSError(errno.EMSGSIZE, os.strerror(errno.EMSGSIZE))
        _send(self.channel, message, files)

    def kill(self) -> None:
        self.channel.close()
        process_table.send(self.pid, signal.SIGKILL)


class KeeperPool:
    """Manages the spare: starts one after a command began, ends it if no command follows.

    `entry` returns how a spare puts itself under the gate, if there is one.
    """

    def __init__(
        self,
        fork: Callable[[], int],
        level: str,
        lease: int,
        proc: int | None,
        entry: Callable[[], GateEntry | None],
    ) -> None:
        self.due = 0.0  # when a spare is to be started or ended; 0: never
        self._spare: PrestartedKeeper | None = None
        self._mounted = False  # of the last program
        self._fork = fork
        self._level = level
        self._lease = lease
        self._proc = proc
        self._entry = entry

    @property
    def pid(self) -> int:
        return self._spare.pid if self._spare else 0

    def pop(self, kind: SpareKind) -> PrestartedKeeper | None:
        """Returns the spare for a new command; another is started soon."""
        spare, self._spare = self._spare, None
        self.due = time.monotonic() + _STARTED_AFTER
        _, self._mounted = kind
        if spare and spare.kind != kind:
            spare.kill()
            return None
        return spare

    def start_soon(self) -> None:
        """Schedules the next spare soon after a command's namespace is gone.

        Earlier the kernel is busy with that namespace.
        """
        if self.due and not self._spare:
            self.due = time.monotonic() + _AFTER_END

    def poll(self) -> None:
        if not self.due or time.monotonic() < self.due:
            return
        if self._spare:
            self.drop()
            return
        ours, theirs = (Channel(end) for end in socket.socketpair())
        entry = self._entry()
        try:
            pid = self._fork()
        except OSError:
            self.due = 0
            return
        if pid == 0:
            keeper = PooledKeeper(self._level, entry, mounted=self._mounted)
            keeper.run(theirs, None, self._lease, self._proc)
        theirs.close()
        self._spare = PrestartedKeeper(pid, ours, (entry is not None, self._mounted))
        self.due = time.monotonic() + _KEPT_FOR
        if LINUX:
            own_memory()

    def drop(self) -> None:
        self.due = 0
        if self._spare:
            self._spare.kill()
            self._spare = None


class PooledKeeper(Keeper):
    def __init__(self, level: str, entry: GateEntry | None, *, mounted: bool) -> None:
        program = Program([], b"/", {}, (), entry=entry)
        super().__init__(program, level=level, marker="", record=None, group=None)
        self._entry = entry
        self._mounted = mounted

    def _run(self, warden: Channel, lifeline: int | None, proc: int | None) -> None:
        self._keeper = os.getpid()
        woken = wake_on_child_exit()
        if self._level == "namespace":  # imported while idle, for both processes
            import tillerman.supervision.warden.mounts  # noqa: F401
        ours, theirs = (Channel(end) for end in socket.socketpair())
        try:
            self._enter_level(proc)
            (output, its_output), (error, its_error) = os.pipe(), os.pipe()
            stdio = (open_input(None)[0], its_output, its_error)
            gate = self._fork(lambda gate: self._wait(theirs, ours, stdio, proc, gate))
        except OSError:
            return  # a keeper started for a program has to report why
        theirs.close()
        inodes = [os.fstat(file).st_ino for file in stdio]
        for file in stdio:
            os.close(file)
        if LINUX:
            own_memory()
        (_, marker, group, program, options), *more = _receive(warden)
        if any(message[0] == "kill" for message in more):  # no other message arrives this early
            return
        try:
            number, *files = warden.pop_files(4)
            self._set_program(
                marker,
                group,
                Program(program[0], program[1], program[2], (), mounts=options[3].get("mounts")),
                ProgramRecord.passed_on("", number),
            )
            self._enforce()
            self._pass_on(ours, group, program, options, files, (output, error), inodes)
        except OSError as error:
            send(warden, "unable", str(error))
            return
        self._supervise(warden, next(iter(warden.pop_files(1)), None), woken, gate)

    def _set_program(
        self, marker: str, group: str | None, program: Program, record: ProgramRecord
    ) -> None:
        self._marker, self._program, self._record = marker, program, record
        self._group = Cgroup(group) if group else None

    def _pass_on(
        self,
        orders: Channel,
        group: str | None,
        program: Invocation,
        options: RunOptions,
        files: list[int],
        pipes: tuple[int, int],
        inodes: list[int],
    ) -> None:
        assert self._record
        stdin, cap, rules, _ = options
        feed, inputs = None, []
        if stdin is not None and stdin is not False:
            its_input, feed = open_input(stdin)
            inputs = [its_input]
            inodes[0] = os.fstat(its_input).st_ino
        self._flow = pump_of(files, pipes, feed, cap)
        self._record.add("pipes", *inodes)
        try:
            _send(orders, frame((group, program, rules)), [self._record.number, *inputs])
        except OSError:
            pass  # it was killed, which the pipe `gate` reports
        orders.close()
        for file in inputs:
            os.close(file)

    def _wait(
        self,
        orders: Channel,
        other: Channel,
        stdio: tuple[int, int, int],
        proc: int | None,
        gate: int,
    ) -> NoReturn:
        """Runs in the program's process until it receives the program."""
        other.close()
        for target, file in enumerate(stdio):
            os.dup2(file, target)
            os.close(file)
        myself = self._prepare(proc)
        if self._entry:
            self._entry.install(myself.pid)
        if self._mounted:  # after the filter, which needs one of these capabilities
            from tillerman.supervision.warden.mounts import drop_capabilities

            drop_capabilities()
        group, (argv, cwd, env), rules = _receive(orders)[0]
        number, *inputs = orders.pop_files(2)
        program = Program(argv, cwd, env, inputs, lambda: enforce(rules), self._entry)
        record = ProgramRecord.passed_on("", number)
        enter(program, myself, record, Cgroup(group) if group else None, gate)

    def _end(self, warden: Channel) -> None:
        if self._record:
            super()._end(warden)
        elif self._pid:
            process_table.send(self._pid, signal.SIGKILL)


def _send(channel: Channel, message: bytes, files: Sequence[int]) -> None:
    sent = channel.socket.sendmsg([message], rights(files))
    while sent < len(message):
        try:
            sent += channel.socket.send(message[sent:])
        except OSError:
            return


def _receive(channel: Channel) -> list[Any]:
    """Receives at least one complete message."""
    messages: list[Any] = []
    while not messages:
        messages = channel.receive()
    return messages
