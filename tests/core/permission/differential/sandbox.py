"""The first process of the private namespaces: runs one line after another and reports facts.

It reads requests and writes answers as JSON lines on one socket. Everything it needs is imported
before it gives up the machine's file system.
"""

from __future__ import annotations

import ctypes
import json
import os
import posixpath
import resource
import select
import signal
import socket
import stat
import time
from contextlib import suppress
from typing import Any

from tests.core.permission.differential import (
    exec_log,
    namespace,
    protected_files,
    shell_process,
    stubs,
    tree,
)
from tests.core.permission.differential.change_events import ChangeEvents
from tests.core.permission.differential.launchers import Launcher
from tests.core.permission.differential.shell_process import ShellStarter

SECONDS = 2.0
_SECONDS_OF_CPU, _LOOK_EVERY = 0.15, 0.05  # a line that needs more runs in circles
ENVIRONMENT = {
    "PATH": f"{stubs.FOLDER}:/usr/bin:/bin",
    "HOME": tree.HOME,
    "PWD": tree.WORKSPACE,
    "LANG": "C.UTF-8",
    "TERM": "dumb",
}
_WATCHED = (tree.BASE, "/tmp")
_PATH = ctypes.addressof(shell_process.PATH)
_COARSE = 5  # the clock by which the kernel dates changes
_TICKS = os.sysconf("SC_CLK_TCK")


def main(connection: socket.socket, launcher: Launcher) -> None:
    """Called as the first process of the pid namespace."""
    namespace.enter_root(tree.BASE)
    stubs.install()
    if launcher.records:
        stubs.install_recorders()
    namespace.seal_root()
    Sandbox(launcher).serve(connection)


class Sandbox:
    def __init__(self, launcher: Launcher) -> None:
        self._launcher = launcher
        self._helpers = launcher.begin()
        self._listener = exec_log.listen(_PATH) if launcher.logs_execs else -1
        self._starter = None if launcher.forks else ShellStarter(tree.WORKSPACE, ENVIRONMENT)
        self._children, wakeup = os.pipe()
        for fd in (self._children, wakeup):
            os.set_blocking(fd, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wakeup)
        self._poll = select.poll()
        if launcher.logs_execs:
            self._poll.register(self._listener, select.POLLIN)
        self._poll.register(self._children, select.POLLIN)
        if launcher.reports >= 0:
            self._poll.register(launcher.reports, select.POLLIN)
        self._before: tree.Snapshot = {}
        self._events = ChangeEvents()
        self._execs: list[Any] = []
        self._programs: dict[int, tuple[str, ...]] = {}  # with what started them

    def serve(self, connection: socket.socket) -> None:
        file = connection.makefile("rwb")
        for request in file:
            shell, line = json.loads(request)
            answer = self._run(shell, line.encode(errors="surrogateescape"))
            file.write(json.dumps(answer).encode() + b"\n")
            file.flush()

    def _run(self, shell: str, line: bytes) -> dict[str, Any]:
        if not self._before:
            os.chmod("/tmp", 0o755)
            tree.build()
            self._before = tree.snapshot(_WATCHED)
            self._events.watch([*_WATCHED, *tree.directories(self._before)])
        self._execs, self._programs = [], {}
        guarded = protected_files.look() if self._launcher.guards else None
        self._launcher.open_session()
        if guarded:
            self._forget_reads(tree.files_read(self._before))
        begun = time.clock_gettime_ns(_COARSE)
        status, timed_out = self._run_shell(shell, line)
        if self._launcher.records:
            self._execs = stubs.recorded()
        read = tree.files_read(self._before)
        self._launcher.close_session()
        events = self._events.take()
        after = self._before
        changed: list[str] = []
        replaced: list[str] = []
        if events.any or guarded:
            after = tree.snapshot(_WATCHED)
            changed = sorted({*tree.changes(self._before, after), *events.names})
            replaced = sorted(tree.replaced_folders(self._before, after)) if changed else []
            self._restore(after, begun, anew=bool(events.folders_differ or (guarded and changed)))
        if guarded:
            changed = protected_files.differences(guarded)
        self._forget_reads(read)
        return {
            "execs": self._execs,
            "changed": changed,
            "replaced": replaced,
            "left": [path for path in changed if path in after],
            "read": read,
            "timed_out": timed_out,
            "status": status,
        }

    def _restore(self, after: tree.Snapshot, since: int, *, anew: bool) -> None:
        restored = None if anew else tree.restored(self._before, after, since)
        if restored is None:
            tree.empty("/tmp")
        self._before = restored or {}
        self._events.take()  # of what was just done

    def _forget_reads(self, paths: list[str]) -> None:
        for path in paths:
            with suppress(OSError):
                os.utime(path, ns=(0, 0))
        if paths and self._before:
            self._events.take()  # of these changes of attributes

    def _run_shell(self, shell: str, line: bytes) -> tuple[int, bool]:
        if self._starter:
            pid, status = self._starter.start(shell, line)
            self._programs[pid] = ()
            return self._wait(pid) if pid else (status, False)
        pid = os.fork()
        if pid == 0:
            self._become_shell(shell, line)
        return self._wait(pid)

    def _become_shell(self, shell: str, line: bytes) -> None:
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            os.setsid()
            os.chdir(tree.WORKSPACE)
            null = os.open("/dev/null", os.O_RDWR)
            for fd in range(3):
                os.dup2(null, fd)
            shell_process.limit()
            seconds = shell_process.CPU_SECONDS
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
            namespace.drop_capabilities()
            self._launcher.launch(f"/bin/{shell}", [shell, "-c", os.fsdecode(line)], ENVIRONMENT)
        finally:
            os._exit(126)

    def _wait(self, first: int) -> tuple[int, bool]:
        """Until the shell and all that it started are gone, or the time is over."""
        status, deadline = -1, time.monotonic() + SECONDS
        spent = _cpu_of_ended()
        look = time.monotonic() + _LOOK_EVERY
        while True:
            try:
                while done := os.waitpid(-1, os.WNOHANG):
                    if done[0] == 0:
                        break
                    if done[0] == first:
                        status = done[1]
                        # what it left in the background has less time
                        deadline = min(deadline, time.monotonic() + SECONDS / 4)
                if self._helpers and not self._others():
                    return status, False
            except ChildProcessError:
                return status, False
            now = time.monotonic()
            if now >= look:
                look = now + _LOOK_EVERY
                if _cpu_of_ended() - spent + self._cpu_of_running() > _SECONDS_OF_CPU:
                    deadline = now
            if now >= deadline:
                self._kill_all()
                return status, True
            for fd, _ in self._poll.poll((min(deadline, look) - now) * 1000):
                if fd == self._listener:
                    self._notified(first)
                elif fd == self._launcher.reports:
                    self._launcher.take_reports()
                else:
                    with suppress(BlockingIOError):
                        os.read(fd, 4096)

    def _cpu_of_running(self) -> float:
        ticks = 0
        for pid in self._others():
            with suppress(OSError), open(f"/proc/{pid}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
                ticks += sum(map(int, fields[11:15]))  # with those of its children that ended
        return ticks / _TICKS

    def _others(self) -> list[int]:
        """Processes of the line: all but us, the first one, and helpers of the launcher."""
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        return [pid for pid in pids if pid != 1 and pid not in self._helpers]

    def _kill_all(self) -> None:
        if not self._helpers:
            os.kill(-1, signal.SIGKILL)  # we are the first process: everybody but us
            with suppress(ChildProcessError):
                while True:
                    os.waitpid(-1, 0)
            return
        while pids := self._others():
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass

    def _notified(self, first: int) -> None:
        try:
            id, attempt = exec_log.receive(self._listener)
        except FileNotFoundError:
            return  # killed before we looked
        if attempt is not None:
            self._record(first, attempt)
        exec_log.answer(self._listener, id)

    def _record(self, first: int, attempt: exec_log.Attempt) -> None:
        try:
            cwd = os.readlink(f"/proc/{attempt.pid}/cwd")
        except OSError:
            return
        path = posixpath.join(cwd, attempt.path)
        if path == "/proc/self/exe":
            path = os.readlink(f"/proc/{attempt.pid}/exe")
        if path.startswith(_WATCHED):
            path = os.path.realpath(path)  # a link that the line made is no program of its own
        with suppress(OSError):
            status = os.stat(path)
            if stat.S_ISREG(status.st_mode) and status.st_mode & 0o111:
                if attempt.pid != first or first in self._programs:
                    via = self._callers(attempt.pid)
                    self._execs.append((path, attempt.argv, cwd, via))
                    self._programs[attempt.pid] = (os.path.basename(path), *via)
                else:
                    self._programs[first] = ()

    def _callers(self, pid: int) -> tuple[str, ...]:
        while pid > 1:
            if pid in self._programs:
                return self._programs[pid]
            try:
                with open(f"/proc/{pid}/stat") as file:
                    pid = int(file.read().rpartition(")")[2].split()[1])
            except OSError:
                break
        # its parent is gone: any of those that ran before may have started it
        return tuple(dict.fromkeys(name for names in self._programs.values() for name in names))


def _cpu_of_ended() -> float:
    used = os.times()
    return used.children_user + used.children_system
