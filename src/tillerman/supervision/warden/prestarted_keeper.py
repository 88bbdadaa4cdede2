"""Pool of a prestarted keeper with a forked child, to start commands faster.

Forking both, and their namespace, takes most of the time of a short command. The prestarted keeper
has no program yet and ends with the warden.
"""

# contextlib would cost every start some milliseconds
# ruff: noqa: SIM105

from __future__ import annotations

import errno
import gc
import os
import time

from tillerman.supervision.isolation.enforcement import enforce, enforce_limits, is_only_limits
from tillerman.supervision.linux import process_table
from tillerman.supervision.linux.cgroup import Cgroup
from tillerman.supervision.linux.process_table import LINUX
from tillerman.supervision.linux.shared_pages import copy_pages, written_pages
from tillerman.supervision.protocol.channel import Channel, frame, rights
from tillerman.supervision.warden.keeper import RESTORED, Keeper, send, wake_on_child_exit
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
    from tillerman.supervision.linux.shared_pages import Range

    Invocation = tuple[list[bytes], bytes, dict[bytes, bytes]]  # of a program: argv, cwd, env
    # stdin, cap of the output, confinement rules, enforcement
    RunOptions = tuple[bytes | bool | None, int, Any, dict[str, Any]]
    # What a spare does before its program is known, which must be of the same kind: whether its
    # execs are checked by the gate, and whether it drops the capabilities that could undo mounts.
    SpareKind = tuple[bool, bool]
else:
    import _signal as signal
    import _socket as socket

_STARTED_AFTER = 0.1  # seconds after a command started, unless it has ended
_AFTER_END = 0.003  # seconds during which its result is delivered and needs the CPU
_KEPT_FOR = 30.0  # seconds without a command
_CHILDREN = "thread-self/children"  # in /proc, if the kernel has it
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
        self._mounted = self._confined = False  # of the last program
        self._is_prepared = False
        self._written: Sequence[Range] = ()
        self._fork = fork
        self._level = level
        self._lease = lease
        self._proc = proc
        self._entry = entry

    @property
    def pid(self) -> int:
        return self._spare.pid if self._spare else 0

    def pop(self, kind: SpareKind, *, confined: bool) -> PrestartedKeeper | None:
        """Returns the spare for a new command; another is started soon."""
        spare, self._spare = self._spare, None
        self.due = time.monotonic() + _STARTED_AFTER
        _, self._mounted = kind
        self._confined = confined
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
        self._prepare_memory()
        ours, theirs = (Channel(end) for end in socket.socketpair())
        entry = self._entry()
        try:
            pid = self._fork()
        except OSError:
            self.due = 0
            return
        if pid == 0:
            forks = self._confined or entry is not None or self._level != "namespace"
            keeper = PooledKeeper(
                self._level, entry, self._written, mounted=self._mounted, forks=forks
            )
            keeper.run(theirs, None, self._lease, self._proc)
        theirs.close()
        self._spare = PrestartedKeeper(pid, ours, (entry is not None, self._mounted))
        self.due = time.monotonic() + _KEPT_FOR
        if self._written:
            copy_pages(self._written)

    def learn(self, written: Sequence[Range]) -> None:
        """Remembers the memory that a command writes to, for the next spares and the warden."""
        self._written = written

    def _prepare_memory(self) -> None:
        """Loads what spares need, once for all; their garbage collector must not touch it."""
        if self._is_prepared:
            return
        self._is_prepared = True
        if self._level == "namespace":
            import tillerman.supervision.warden.mounts  # noqa: F401
        gc.freeze()

    def drop(self) -> None:
        self.due = 0
        if self._spare:
            self._spare.kill()
            self._spare = None


class PooledKeeper(Keeper):
    """`written`: the memory that commands write to; if it is unknown, this one reports it.

    `forks`: the child that becomes the program is started early too.

    A program that only needs limits is spawned later instead, in a pid namespace: its process has
    no memory of the keeper to copy and to free.
    """

    def __init__(
        self,
        level: str,
        entry: GateEntry | None,
        written: Sequence[Range],
        *,
        mounted: bool,
        forks: bool,
    ) -> None:
        program = Program([], b"/", {}, (), entry=entry)
        super().__init__(program, level=level, marker="", record=None, group=None)
        self._entry = entry
        self._written = written
        self._mounted = mounted
        self._forks = forks

    def _run(self, warden: Channel, lifeline: int | None, proc: int | None) -> None:
        self._keeper = os.getpid()
        wake_pipe = wake_on_child_exit()
        child = None
        try:
            self._enter_level(proc)
            (output, its_output), (error, its_error) = os.pipe(), os.pipe()
            stdio = [open_input(None)[0], its_output, its_error]
            self._forks = self._forks or proc is None or not _lists_children(proc)
            if self._forks:
                child = self._start_child(stdio, proc)
            elif self._mounted:
                from tillerman.supervision.warden.mounts import drop_capabilities

                drop_capabilities(later=True)
        except OSError:
            return  # a keeper started for a program has to report why
        inodes = [os.fstat(file).st_ino for file in stdio]
        if self._written:
            copy_pages(self._written)
        (_, marker, group, invocation, options), *more = _receive(warden)
        if any(message[0] == "kill" for message in more):  # no other message arrives this early
            return
        stdin, cap, rules, enforcement = options
        try:
            number, *files = warden.pop_files(4)
            self._record = ProgramRecord.passed_on("", number)
            self._marker, self._group = marker, Cgroup(group) if group else None
            argv, cwd, env = invocation
            mounts = enforcement.get("mounts")
            self._program = Program(argv, cwd, env, stdio, lambda: enforce(rules), mounts=mounts)
            self._enforce()
            feed = None
            if stdin is not None and stdin is not False:
                os.close(stdio[0])
                stdio[0], feed = open_input(stdin)
                inodes[0] = os.fstat(stdio[0]).st_ino
            self._flow = pump_of(files, (output, error), feed, cap)
            self._record.add("pipes", *inodes)
        except OSError as error:
            send(warden, "unable", str(error))
            return
        started = self._program_start(child, group, invocation, rules, proc, feed is not None)
        lifeline = next(iter(warden.pop_files(1)), None)
        self._supervise(warden, lifeline, wake_pipe, started)

    def _start_child(self, stdio: list[int], proc: int | None) -> tuple[Channel, int]:
        """Forks the child that becomes the program; returns its channel and its gate."""
        ours, theirs = (Channel(end) for end in socket.socketpair())
        gate = self._fork(lambda gate: self._wait(theirs, ours, stdio, proc, gate))
        theirs.close()
        return ours, gate

    def _program_start(
        self,
        child: tuple[Channel, int] | None,
        group: str | None,
        invocation: Invocation,
        rules: Any,
        proc: int | None,
        has_input: bool,
    ) -> Callable[[], tuple[int, str]]:
        """Returns what starts the program and returns its pid and start time."""

        def start() -> tuple[int, str]:
            stdio = self._program.stdio
            try:
                if child:
                    orders, gate = child
                    self._pass_on(orders, group, invocation, rules, has_input)
                elif proc is not None and not self._forks and is_only_limits(rules):
                    return self._spawn(rules, proc)
                else:
                    gate = self._fork(lambda gate: self._become(proc, gate))
            finally:
                for file in stdio:
                    os.close(file)
            return self._started(gate)

        return start

    def _spawn(self, rules: Any, proc: int) -> tuple[int, str]:
        """Runs the program without a copy of this process.

        It is on record after its exec: until then its keeper is, with which the namespace ends.
        """
        assert self._record
        program = self._program
        enforce_limits(rules)
        os.chdir(program.cwd)
        try:
            files = [(os.POSIX_SPAWN_DUP2, file, to) for to, file in enumerate(program.stdio)]

            def run(path: bytes) -> int:
                return os.posix_spawn(
                    path,
                    program.argv,
                    program.env,
                    file_actions=files,
                    setsid=True,
                    setsigdef=RESTORED,
                )

            self._pid = program.first_found(run)
        finally:
            os.chdir("/")
        # as the harness sees it; a process that this one inherited would come after it
        pid = process_table.read(_CHILDREN, dir_fd=proc).split()[0].decode()
        row = process_table.parse_stat(process_table.read(f"{pid}/stat", dir_fd=proc))
        self._record.add_process(row)
        return row.pid, row.start

    def _pass_on(
        self,
        orders: Channel,
        group: str | None,
        invocation: Invocation,
        rules: Any,
        has_input: bool,
    ) -> None:
        assert self._record
        inputs = self._program.stdio[:1] if has_input else ()
        try:
            _send(orders, frame((group, invocation, rules)), [self._record.number, *inputs])
        except OSError:
            pass  # it was killed, which the pipe `gate` reports
        orders.close()

    def _wait(
        self, orders: Channel, other: Channel, stdio: list[int], proc: int | None, gate: int
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
            if LINUX and not self._written:
                _report_written(warden)
        elif self._pid:
            process_table.send(self._pid, signal.SIGKILL)


def _report_written(warden: Channel) -> None:
    try:
        send(warden, "written", written_pages())
    except OSError:
        pass  # the kernel does not tell: each command copies what it needs


def _lists_children(proc: int) -> bool:
    try:
        process_table.read(_CHILDREN, dir_fd=proc)
    except OSError:
        return False
    return True


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
