"""The small parent of a session's programs: one keeper each, all ended when the harness is gone.

Runs as a process of its own, on the standard library alone; `launch` starts it. Messages in:
spawn, run, last, input, watch, signal, kill, end. Messages out: hello or refused; then per program
started or failed, exited or ended, gone. The harness's end of the socket closing, for whatever
reason, ends everything; a warden that may linger keeps the programs that are to last, for a while,
until a harness comes back to it.
"""

# pathlib and contextlib would cost every start some milliseconds
# ruff: noqa: PTH119, SIM105

from __future__ import annotations

import os
import select
import time

from bridle.supervision import ending, kernel, levels, processes, records
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

    from bridle.supervision.outflow import Flow
    from bridle.supervision.rendezvous import Door, Guest
    from bridle.supervision.spare import Spare
else:  # the C halves: their Python wrappers cost every start 9 ms
    import _signal as signal
    import _socket as socket


# seconds until a keeper that was told to end its program, and move its output, is killed
_HANGS_AFTER = 1.0
_PATIENCE = 3.0  # while somebody waits who wants to read it


class _Over(Exception):
    """It is time to end everything."""


class Kept:
    """A program that has a keeper, as the warden sees it."""

    def __init__(
        self,
        number: int,
        keeper: int,
        post: Channel,
        record: records.Record,
        group: Cgroup | None,
        job: Job | None,
    ) -> None:
        self.number = number
        self.keeper = keeper
        self.post = post
        self.record = record
        self.group = group
        self.job = job
        self.ended = False
        self.silent = False
        self.left: list[int] = []


class Job:
    """What is known besides of a program whose output goes to files."""

    def __init__(self, name: str, folder: int, *, lasting: bool) -> None:
        self.name = name
        self.folder = folder
        self.lasting = lasting
        self.pid = 0
        self.start = ""
        self.end_by: float | None = None  # its keeper was told to; if that hangs, it is killed
        self.why = ending.KEEPER
        self.feeding = False
        self.waiting: list[Guest] = []  # for its end


class Warden:
    def __init__(
        self,
        harness: Channel,
        lifeline: int,
        place: levels.Place,
        lease: records.Lease,
        linger: float = 0,
    ) -> None:
        self._harness: Channel | None = harness
        self._lifeline = lifeline
        self._linger = linger
        self._leave_at = 0.0  # while there is no harness
        self._last_number = 0
        self._ended_alone: list[str] = []  # while there was no harness
        self._door: Door | None = None
        self._line: list[tuple[Guest, int]] = []  # who would hold it next, with a lifeline
        self._place = place
        self._lease = lease
        self._marker = os.path.basename(lease.folder)
        self._boot = processes.boot_id()
        self._proc = os.open("/proc", os.O_RDONLY | os.O_CLOEXEC) if LINUX else None
        self._kept: dict[int, Kept] = {}
        self._spare: Spare | None = None  # for the next program whose output goes to files
        self._spare_at = 0.0  # when it is to be made, or to go; 0 is never
        self._ready = select.poll()

    def serve(self) -> None:
        woken = wake_on_child_exit()
        assert self._harness
        for number in (woken, self._harness.fileno()):
            self._ready.register(number, select.POLLIN)
        if self._linger:
            self._open_door()
        self._say("hello", *self._introduction())
        try:
            while True:
                events = {number for number, _ in self._ready.poll(self._patience())}
                if self._harness and self._harness.fileno() in events:
                    self._hear_harness(self._harness)
                for kept in [one for one in self._kept.values() if one.post.fileno() in events]:
                    if not self._listen(kept):
                        self._ready.unregister(kept.post.fileno())
                        kept.silent = True
                if woken in events:
                    os.read(woken, 4096)
                    self._reap()
                self._end_hung()
                self._mind_spare()
                if self._door:
                    self._look_after(self._door, events)
        except (EOFError, _Over):
            self._end_all(woken)

    def _hear_harness(self, harness: Channel) -> None:
        try:
            for message in harness.receive():
                self._obey(harness, message)
        except EOFError:
            if not self._door:
                raise
            self._ready.unregister(harness.fileno())
            harness.close()
            self._harness = None
            self._drop_spare()
            self._leave_at = time.monotonic() + self._linger
            for kept in list(self._kept.values()):
                if not (kept.job and kept.job.lasting):
                    self._end(kept, ending.HARNESS)

    def _obey(self, harness: Channel, message: tuple[Any, ...]) -> None:
        match message:
            case ("spawn", number, argv, cwd, env):
                stdio = harness.take_files(3)
                try:
                    self._spawn(number, Program(argv, cwd, env, stdio))
                except OSError as error:
                    self._say("unable", number, str(error))
                for file in stdio:
                    os.close(file)
            case ("run", number, argv, cwd, env, *how):
                files = harness.take_files(3)
                try:
                    self._run(number, argv, cwd, env, files, *how)
                except (OSError, ImportError) as error:
                    os.close(files[0])
                    self._say("unable", number, str(error))
                for file in files[1:]:
                    os.close(file)
            case ("signal", number, signal_number) if kept := self._kept.get(number):
                self._tell(kept, "signal", signal_number)
            case ("kill", number):
                if kept := self._kept.get(number):
                    self._end(kept)
            case ("last", number) if (kept := self._kept.get(number)) and kept.job:
                kept.job.lasting = True
                self._tell(kept, "last")
            case ("input", number, data, eof) if (kept := self._kept.get(number)) and kept.job:
                if kept.job.feeding:  # a keeper that does not read must not stop us
                    self._say("input", number, "full")
                else:
                    kept.job.feeding = True
                    self._tell(kept, "input", data, eof)
            case ("watch", number, seen) if kept := self._kept.get(number):
                self._tell(kept, "watch", seen)
            case ("end",):
                raise _Over

    # -- without a harness ------------------------------------------------------------------------

    def _open_door(self) -> None:
        from bridle.supervision.rendezvous import Door

        self._door = Door(self._lease.folder)
        self._ready.register(self._door.fileno(), select.POLLIN)

    def _introduction(self) -> tuple[Any, ...]:
        return self._place.level, self._place.notes, os.getpid()

    def _programs(self) -> list[tuple[Any, ...]]:
        """Those that have not ended; one that has not begun yet has no pid."""
        return [
            (kept.number, kept.job.name, kept.job.pid, kept.job.start, kept.job.lasting)
            for kept in self._kept.values()
            if kept.job and not kept.ended
        ]

    def _patience(self) -> float | None:
        """Milliseconds until something has to be done unasked."""
        times = [job.end_by for kept in self._kept.values() if (job := kept.job) and job.end_by]
        if self._door and not self._harness:
            times.append(self._leave_at)
        if self._spare_at:
            times.append(self._spare_at)
        return max(0.0, min(times) - time.monotonic()) * 1000 if times else None

    def _look_after(self, door: Door, events: set[int]) -> None:
        if door.fileno() in events and (guest := door.admit()):
            self._ready.register(guest.channel.fileno(), select.POLLIN)
        for guest in [one for number, one in door.guests.items() if number in events]:
            try:
                for message in guest.receive(door.key):
                    self._attend(guest, message)
            except BlockingIOError:
                continue
            except (EOFError, OSError):
                self._dismiss(door, guest)
        if surplus := door.too_many():
            self._dismiss(door, surplus)
        if not self._harness and self._line:
            self._welcome(door, *self._line.pop(0))
        if not self._harness and (time.monotonic() >= self._leave_at or not self._any_lasts()):
            raise _Over

    def _any_lasts(self) -> bool:
        return any(kept.job and kept.job.lasting for kept in self._kept.values())

    def _attend(self, guest: Guest, message: tuple[Any, ...]) -> None:
        """Anybody of the user may list, signal and kill; one at a time holds us alive."""
        match message:
            case ("hold",):
                self._line += [(guest, lifeline) for lifeline in guest.channel.take_files(1)]
            case ("list",):
                guest.say("programs", self._programs())
            case ("signal" | "kill" as word, str(name), *rest):
                jobs = [kept for kept in self._kept.values() if kept.job and kept.job.name == name]
                if not jobs:
                    guest.say("unknown", name)
                for kept in jobs:
                    assert kept.job
                    if word == "kill":
                        kept.job.waiting.append(guest)
                        self._end(kept)
                    else:
                        self._tell(kept, "signal", *rest)
                        guest.say("signalled", name)

    def _dismiss(self, door: Door, guest: Guest) -> None:
        self._ready.unregister(guest.channel.fileno())
        for waiting, lifeline in list(self._line):
            if waiting is guest:
                os.close(lifeline)
                self._line.remove((waiting, lifeline))
        for kept in self._kept.values():
            if kept.job and guest in kept.job.waiting:
                kept.job.waiting.remove(guest)
        door.drop(guest)

    def _welcome(self, door: Door, guest: Guest, lifeline: int) -> None:
        """The harness is back, or another took its place."""
        del door.guests[guest.channel.fileno()]
        os.close(self._lifeline)
        self._harness, self._lifeline = guest.channel, lifeline
        self._harness.socket.setblocking(True)
        ended, self._ended_alone = self._ended_alone, []
        programs = self._programs()
        self._say("hello", *self._introduction(), self._last_number, programs, ended)

    # -- programs ---------------------------------------------------------------------------------

    def _run(
        self,
        number: int,
        argv: list[bytes],
        cwd: bytes,
        env: dict[bytes, bytes],
        files: list[int],
        name: str,
        lasting: bool,
        stdin: bytes | bool | None,
        cap: int,
        rules: Any,
    ) -> None:
        """A program whose output goes to files, and whose end is written down in their folder."""
        from bridle.supervision.isolation import enforce
        from bridle.supervision.outflow import open_flow
        from bridle.supervision.spare import MADE_AFTER

        job = Job(name, files[0], lasting=lasting)
        self._spare_at = time.monotonic() + MADE_AFTER
        if self._run_by_spare(number, (argv, cwd, env), files, (stdin, cap, rules), job):
            return

        def confine() -> None:
            enforce(rules)

        flow, stdio = open_flow(files, stdin, cap)
        try:
            self._spawn(number, Program(argv, cwd, env, stdio, confine), job, flow)
        finally:
            for file in (*stdio, *flow.pipes):
                os.close(file)

    def _spawn(
        self, number: int, program: Program, job: Job | None = None, flow: Flow | None = None
    ) -> None:
        marker = f"{self._marker}.{number}"
        program.env[processes.MARKER.encode()] = marker.encode()
        record = records.Record(self._lease.folder, str(number))
        try:
            kept = self._keep(number, program, marker, record, job, flow)
        except BaseException:
            record.remove()
            raise
        record.add_process(processes.find(kept.keeper))
        self._look_after_kept(kept)
        self._tell(kept, "go")

    def _look_after_kept(self, kept: Kept) -> None:
        self._kept[kept.number] = kept
        self._last_number = max(kept.number, self._last_number)
        self._ready.register(kept.post.fileno(), select.POLLIN)

    def _keep(
        self,
        number: int,
        program: Program,
        marker: str,
        record: records.Record,
        job: Job | None,
        flow: Flow | None,
    ) -> Kept:
        """Fork the program's keeper, which waits for the word that it is on record."""
        group = self._group(marker, record)
        record.add("pipes", *(os.fstat(file).st_ino for file in program.stdio))
        keeper = Keeper(
            program, level=self._place.level, marker=marker, record=record, group=group, flow=flow
        )
        ours, theirs = (Channel(end) for end in socket.socketpair())
        lifeline = None if job and job.lasting else self._lifeline
        pid = self._fork()
        if pid == 0:
            keeper.run(theirs, lifeline, self._lease.number, self._proc)
        theirs.close()
        return Kept(number, pid, ours, record, group, job)

    def _group(self, marker: str, record: records.Record) -> Cgroup | None:
        record.add("boot", self._boot)
        record.add("level", self._place.level)
        if self._place.level != "cgroup":
            return None
        group = Cgroup.create(f"bridle-{marker}")
        record.add("cgroup", group.folder)
        return group

    # -- the spare --------------------------------------------------------------------------------

    def _run_by_spare(
        self,
        number: int,
        program: tuple[list[bytes], bytes, dict[bytes, bytes]],
        files: list[int],
        how: tuple[bytes | bool | None, int, Any],
        job: Job,
    ) -> bool:
        """False when there is none, or it is gone: then one is made for the program."""
        from bridle.supervision.spare import Order

        if self._spare is None:
            return False
        spare, self._spare = self._spare, None
        marker = f"{self._marker}.{number}"
        program[2][processes.MARKER.encode()] = marker.encode()
        record = records.Record(self._lease.folder, str(number))
        group = None
        try:
            group = self._group(marker, record)
            record.add_process(spare.row)
            lifeline = None if job.lasting else self._lifeline
            where = group.folder if group else None
            order = Order(marker, where, program, how, [record.number, *files], lifeline)
            if order.fits:
                order.give(spare.post)
                self._look_after_kept(Kept(number, spare.pid, spare.post, record, group, job))
                return True
        except OSError:
            pass
        if group:
            group.remove()
        record.remove()
        spare.let_go()
        return False

    def _mind_spare(self) -> None:
        if not self._spare_at or time.monotonic() < self._spare_at:
            return
        if self._spare:
            self._drop_spare()
            return
        from bridle.supervision.spare import KEPT_FOR, Spare, SpareKeeper

        ours, theirs = (Channel(end) for end in socket.socketpair())
        try:
            pid = self._fork()
        except OSError:
            self._spare_at = 0
            return
        if pid == 0:
            SpareKeeper(self._place.level).run(theirs, None, self._lease.number, self._proc)
        theirs.close()
        self._spare = Spare(pid, ours)
        self._spare_at = time.monotonic() + KEPT_FOR

    def _drop_spare(self) -> None:
        self._spare_at = 0
        if self._spare:
            self._spare.let_go()
            self._spare = None

    def _fork(self) -> int:
        if self._place.level == "namespace":
            return fork_init(user=self._place.user)
        return os.fork()

    def _say(self, *message: Any) -> None:
        try:
            if self._harness:
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
            if kept.job:
                self._note(kept, kept.job, word, rest)
            else:
                kept.ended = kept.ended or word != "started"
            self._say(word, kept.number, *rest)
        return True

    def _note(self, kept: Kept, job: Job, word: str, rest: list[Any]) -> None:
        match word:
            case "started":
                job.pid, job.start = rest
            case "input":
                job.feeding = False
            case "failed" | "unable" | "ended":
                kept.ended = True
                if not self._harness:
                    self._ended_alone.append(job.name)

    def _end(self, kept: Kept, why: str = ending.TOLD) -> None:
        if kept.job:  # whose output is to be whole, and whose end written down
            if not kept.job.end_by:
                kept.job.why = why
                patience = _PATIENCE if why == ending.TOLD else _HANGS_AFTER
                kept.job.end_by = time.monotonic() + patience
            self._tell(kept, "kill", why)
        elif self._place.level == "namespace":
            processes.send(kept.keeper, signal.SIGKILL)
        else:
            self._tell(kept, "kill")

    def _end_hung(self) -> None:
        for kept in self._kept.values():
            if kept.job and kept.job.end_by and kept.job.end_by <= time.monotonic():
                kept.job.end_by = None
                processes.send(kept.keeper, signal.SIGKILL)

    def _reap(self) -> None:
        keepers = {kept.keeper: kept for kept in self._kept.values()}
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                if self._spare and pid == self._spare.pid:
                    self._drop_spare()
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
        if kept.job:
            self._close_job(kept, kept.job)
        elif not kept.ended:
            self._say("exited", kept.number, int(signal.SIGKILL))
        for pid in kept.left:  # what we could not end stays on record
            kept.record.add_process(processes.find(pid))
        if not kept.left:
            if kept.group:
                kept.group.remove()
            kept.record.remove()
        self._say("gone", kept.number, kept.left)
        if self._spare_at and not self._spare:  # not before: the kernel is busy with its namespace
            self._spare_at = time.monotonic()
        if kept.job:
            for guest in kept.job.waiting:
                guest.say("gone", kept.job.name, kept.left)

    def _close_job(self, kept: Kept, job: Job) -> None:
        """What its keeper was killed before it could write and tell."""
        if not kept.ended:
            end = ending.read(job.folder)
            if end is None:
                sizes = ending.sizes_on_disk(job.folder)
                end = ending.Ending(int(signal.SIGKILL), time.time(), sizes, job.why)
                ending.write(job.folder, end)
            self._note(kept, job, "ended", [])
            self._say("ended", kept.number, end.status, end.at, end.sizes, end.why)
        os.close(job.folder)

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
        if self._spare:
            others.add(self._spare.pid)
        return processes.end_children(others, self._reap, END_WITHIN)

    def _end_all(self, woken: int) -> None:
        deadline = time.monotonic() + END_WITHIN
        ended = select.poll()
        ended.register(woken, select.POLLIN)
        why = ending.TOLD if self._harness else ending.LEASE
        self._drop_spare()
        for kept in list(self._kept.values()):
            self._end(kept, why)
        if any(kept.job for kept in self._kept.values()):
            deadline = time.monotonic() + _HANGS_AFTER
        while self._kept and (left := deadline - time.monotonic()) > 0:
            if ended.poll(left * 1000):
                os.read(woken, 4096)
            self._reap()
        for kept in list(self._kept.values()):
            processes.send(kept.keeper, signal.SIGKILL)
        if not processes.end_children(frozenset(), self._reap, END_WITHIN):
            self._lease.remove()


def main(control: str, lifeline: str, wanted: str, folder: str, linger: str = "0") -> None:
    """The process `launch` starts. It outlives Ctrl-C and hang-ups: only the harness ends it."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    for inherited in (control, lifeline):
        os.set_inheritable(int(inherited), False)
    os.chdir("/")
    harness = Channel(socket.socket(fileno=int(control)))
    try:
        _serve(harness, int(lifeline), wanted, folder, float(linger))
    except levels.Unavailable as error:
        harness.send("refused", error.level, error.reason)


def _serve(harness: Channel, lifeline: int, wanted: str, folder: str, linger: float) -> None:
    if LINUX:
        kernel.name_process("bridle-warden")
        kernel.become_subreaper()
    place = levels.choose(wanted)
    Warden(harness, lifeline, place, records.Lease.open(folder), linger).serve()
