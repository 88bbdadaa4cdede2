"""The parent process of one program: starts it, reports its exit, kills its whole tree.

There is one keeper per program at every level, so that each tree has its own reaper. It ends the
tree when the program ends, on request, when the warden has ended, and, unless the program is
lasting, when the harness has ended.
"""

# pathlib and contextlib would cost every start some milliseconds
# ruff: noqa: SIM105

from __future__ import annotations

import errno
import os
import select
import time

from tillerman.supervision.linux import process_table, syscalls
from tillerman.supervision.linux.process_table import LINUX
from tillerman.supervision.protocol.channel import Channel, frame, unframe
from tillerman.supervision.warden import exit_file
from tillerman.supervision.warden.process_tree import end_process_tree
from tillerman.supervision.warden.program import Program, enter

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable
    from typing import Any, NoReturn

    from tillerman.supervision.linux.cgroup import Cgroup
    from tillerman.supervision.warden.mounts import Mounts, Plan
    from tillerman.supervision.warden.output_pump import OutputPump
    from tillerman.supervision.warden.records import ProgramRecord
else:
    import _signal as signal

RESTORED = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}  # those that can be ignored


class Keeper:
    """Runs in its own process, forked from the warden; `run` does not return."""

    def __init__(
        self,
        program: Program,
        *,
        level: str,
        marker: str,
        record: ProgramRecord | None,
        group: Cgroup | None,
        flow: OutputPump | None = None,
    ) -> None:
        self._program = program
        self._level = level
        self._marker = marker
        self._record = record
        self._group = group
        self._flow = flow
        self._watched: int | None = None  # the harness waits for more output than this
        self._why = ""
        self._keeper = 0  # pid of the keeper itself
        self._pid = 0
        self._status: int | None = None
        self._mounts: Mounts | None = None
        self._unmounted: list[tuple[bytes, str]] = []  # mounts that failed at the start
        self._unhandled: list[tuple[Any, ...]] = []  # messages received together with the first one

    def run(self, warden: Channel, lifeline: int | None, lease: int, proc: int | None) -> NoReturn:
        """Runs the keeper. It holds the lease open too: the lease is free only without any keeper.

        Without a lifeline the harness may end, and only the end of the warden ends the program.
        """
        code = 0
        try:
            keep = {warden.fileno(), lifeline, lease, proc}
            keep.add(self._record.number if self._record else None)
            keep.update(self._program.files, self._flow.files if self._flow else ())
            close_all_but({number for number in keep if number is not None})
            self._run(warden, lifeline, proc)
        except EOFError:  # the warden has ended
            self._why = exit_file.WARDEN
        except BaseException:
            _print_traceback()
            code = 70
        try:
            self._end(warden)
        except BaseException:
            _print_traceback()
            code = 70
        os._exit(code)

    def _run(self, warden: Channel, lifeline: int | None, proc: int | None) -> None:
        """Runs until the tree has to end, for whatever reason."""
        self._keeper = os.getpid()
        # the warden confirms that this process is its child and on record, or cancels
        first = warden.receive()
        if any(message[0] == "kill" for message in first):
            return
        self._unhandled = first[1:]
        wake_pipe = wake_on_child_exit()
        try:
            self._enter_level(proc)
            self._enforce()
        except OSError as error:
            send(warden, "unable", f"{self._level} level: {error}")
            return
        try:
            gate = self._fork(lambda gate: self._become(proc, gate))
        except OSError as error:
            self._fail(warden, error)
            return
        for number in self._program.files:
            os.close(number)
        self._supervise(warden, lifeline, wake_pipe, lambda: self._started(gate))

    def _fail(self, warden: Channel, error: OSError) -> None:
        self._flow = None  # there is no exit to report
        send(warden, "failed", error.errno, error.strerror, error.filename)

    def _supervise(
        self,
        warden: Channel,
        lifeline: int | None,
        wake_pipe: int,
        started: Callable[[], tuple[int, str]],
    ) -> None:
        """`started` returns pid and start time of the program, once it runs."""
        try:
            pid, start = started()
        except OSError as error:
            self._fail(warden, error)
            return
        self._report_start(warden, pid, start)
        ready = select.poll()
        for message in self._unhandled:
            self._handle(warden, message, ready)
        ready.register(wake_pipe, select.POLLIN)
        ready.register(warden.fileno(), select.POLLIN)
        if lifeline is not None:
            ready.register(lifeline, 0)  # no data ever arrives: only a hang-up is reported
        if self._flow:
            self._flow.begin(ready)
        while self._status is None:
            events = {number for number, _ in ready.poll()}
            if wake_pipe in events:
                os.read(wake_pipe, 4096)
                self._reap()
            if warden.fileno() in events:
                for message in warden.receive():
                    if message == ("last",):
                        if lifeline is not None:
                            ready.unregister(lifeline)
                            lifeline = None
                        send(warden, "lasting")
                    elif not self._handle(warden, message, ready):
                        return
            if lifeline in events:
                self._why = exit_file.HARNESS
                return
            if self._flow:
                self._flow.serve(events, ready)
                self._report_growth(warden)

    def _enter_level(self, proc: int | None) -> None:
        """Takes the place in the process tree that the level requires."""
        match self._level:
            case "namespace":
                syscalls.die_with_parent()
                syscalls.mount_own_proc()
                assert proc is not None
                _count_pids_from(os.readlink("self", dir_fd=proc))
            case "cgroup" | "subreaper":
                syscalls.become_subreaper()

    def _report_start(self, warden: Channel, pid: int, start: str) -> None:
        """Sends both messages at once: a second wake-up would take CPU time from the program."""
        mounted = frame(("mounted", self._unmounted)) if self._mounts else b""
        try:
            warden.socket.sendall(mounted + frame(("started", pid, start)))
        except OSError:
            pass  # the warden has ended; the tree still has to end

    def _enforce(self) -> None:
        """Applies the mounts before the program runs. Raises OSError if a required one fails."""
        wanted = self._program.mounts
        if wanted is None or self._level != "namespace":
            return
        from tillerman.supervision.warden.mounts import Mounts

        self._mounts = Mounts()
        self._unmounted = failed = self._mounts.apply(wanted["plan"])
        if failed and wanted.get("required"):
            path, reason = failed[0]
            raise OSError(errno.EPERM, f"{os.fsdecode(path)} cannot be mounted: {reason}")
        self._program.mounted = True

    def _mount(self, warden: Channel, plan: Plan) -> None:
        assert self._mounts
        send(warden, "mounted", self._mounts.apply(plan))

    def _fork(self, become: Callable[[int], NoReturn]) -> int:
        """Forks a process that calls `become`, and returns the read end of a pipe.

        Through it the process reports its pid as the harness sees it and its start time, or the
        error that prevented the start; exec closes it.
        """
        gate, gate_end = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                become(gate_end)
            except OSError as error:
                failure = (error.errno, error.strerror, error.filename)
            except BaseException as error:
                failure = (errno.EINVAL, str(error), None)
            os.write(gate_end, frame(failure))
            os._exit(127)
        os.close(gate_end)
        return gate

    def _started(self, gate: int) -> tuple[int, str]:
        reported = bytearray()
        while part := os.read(gate, 4096):
            reported += part
        os.close(gate)
        match unframe(reported):
            case [(int(pid), str(start))]:
                return pid, start
            case [*_, (number, text, name)]:
                raise OSError(number, text, name)
        raise OSError(errno.ECHILD, "ended before it could run", self._program.argv[0])

    def _become(self, proc: int | None, gate: int) -> NoReturn:
        assert self._record
        enter(self._program, self._prepare(proc), self._record, self._group, gate)

    def _prepare(self, proc: int | None) -> process_table.ProcessRow:
        """Prepares the program's process before exec; returns its row in the process table."""
        os.setsid()
        if LINUX and self._level != "namespace":
            syscalls.die_with_parent()
            if os.getppid() != self._keeper:
                os._exit(127)
        for number in RESTORED:
            signal.signal(number, signal.SIG_DFL)
        if proc is None:
            myself = process_table.find(os.getpid())
        else:  # /proc of the harness's pid namespace, where "self" is the pid seen there
            myself = process_table.parse_stat(process_table.read("self/stat", dir_fd=proc))
        assert myself is not None
        return myself

    def _handle(self, warden: Channel, message: tuple[Any, ...], ready: select.poll) -> bool:
        """Handles a message. Returns False when the tree has to end."""
        match message:
            case ("signal", number) if self._status is None:
                # a shell's children are in its process group, as they would be in a terminal
                process_table.send(-self._pid if self._flow else self._pid, number)
            case ("input", data, eof) if self._flow:
                send(warden, "input", self._flow.feed(data, ready, eof=eof))
            case ("mounts", plan):
                if self._mounts:
                    self._mount(warden, plan)
                else:
                    send(warden, "mounted", [])
            case ("watch", seen):
                self._watched = seen if self._watched is None else min(seen, self._watched)
            case ("kill", *why):
                self._why = why[0] if why else ""
                return False
        return True

    def _report_growth(self, warden: Channel) -> None:
        assert self._flow
        if self._watched is not None and self._flow.total > self._watched:
            self._watched = None
            send(warden, "grown", self._flow.sizes)

    def _reap(self) -> bool:
        """Reaps ended children. Returns False when no child is left."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return True
                if pid == self._pid:
                    self._status = status
        except ChildProcessError:
            return False

    def _end(self, warden: Channel) -> None:
        """Reports the exit, then ends the tree: the tree must not delay the report."""
        if self._flow:
            if self._pid:
                self._end_with_output(warden, self._flow)
            return
        known = self._status
        if known is not None:
            send(warden, "exited", known)
        if self._level == "namespace":
            return  # the kernel ends the rest of the namespace before this process can be reaped
        left = end_process_tree(self._level, self._group, self._pid, self._marker, self._reap)
        if known is None and self._status is not None:
            send(warden, "exited", self._status)
        if left:
            send(warden, "left", sorted(left))

    def _end_with_output(self, warden: Channel, flow: OutputPump) -> None:
        """Ends the tree, then reports: the output is complete when the harness is notified."""
        left = end_process_tree(self._level, self._group, self._pid, self._marker, self._reap)
        flow.drain()
        status = int(signal.SIGKILL) if self._status is None else self._status
        end = exit_file.ExitFile(status, time.time(), flow.sizes, self._why)
        exit_file.write(flow.folder, end)
        send(warden, "ended", end.status, end.at, end.sizes, end.why)
        if left:
            send(warden, "left", sorted(left))


def _count_pids_from(pid: str) -> None:
    """Starts pids at a unique number: else programs that name files in /tmp by pid collide."""
    try:
        number = os.open("/proc/sys/kernel/ns_last_pid", os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return  # a kernel without checkpoint support: pids are small, all else works
    try:
        os.write(number, pid.encode())
    except OSError:
        pass
    finally:
        os.close(number)


def send(warden: Channel, *message: Any) -> None:
    try:
        warden.send(*message)
    except OSError:
        pass  # the warden has ended; the tree still has to end


def wake_on_child_exit() -> int:
    wake_pipe, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    return wake_pipe


def close_all_but(keep: set[int]) -> None:
    start = 3
    for number in sorted(keep):
        os.closerange(start, number)
        start = max(start, number + 1)
    os.closerange(start, os.sysconf("SC_OPEN_MAX"))


def _print_traceback() -> None:
    import traceback

    try:
        os.write(2, traceback.format_exc().encode(errors="replace"))
    except OSError:
        pass  # the harness that reads it has ended
