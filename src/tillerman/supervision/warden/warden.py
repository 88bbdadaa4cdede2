"""The warden process: parent of a session's programs, all ended when the harness has ended.

Runs as a separate process with only the standard library; `launch` starts it. Messages in: spawn,
run, last, input, watch, signal, kill, end. Messages out: hello or refused; then per program started
or failed, exited or ended, gone. When the harness's end of the socket closes, for whatever reason,
everything ends; a warden that may linger keeps lasting programs for some time, until a harness
reconnects.
"""

# pathlib would cost every start some milliseconds
# ruff: noqa: PTH119

from __future__ import annotations

import os
import select
import time

from tillerman.supervision.linux import process_table, syscalls
from tillerman.supervision.linux.cgroup import Cgroup
from tillerman.supervision.linux.pid_namespace import fork_init
from tillerman.supervision.linux.process_table import LINUX
from tillerman.supervision.protocol.channel import Channel
from tillerman.supervision.warden import exit_file, levels, records
from tillerman.supervision.warden.keeper import (
    END_WITHIN,
    Keeper,
    Program,
    close_all_but,
    end_group,
    wake_on_child_exit,
)
from tillerman.supervision.warden.supervised_program import (
    HANGS_AFTER,
    JobFolder,
    SupervisedProgram,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    import socket
    from typing import Any

    from tillerman.supervision.exec_gate.client import GateProcess
    from tillerman.supervision.exec_gate.entry import GateEntry
    from tillerman.supervision.warden.control_socket import ControlSocket
    from tillerman.supervision.warden.output_pump import OutputPump
    from tillerman.supervision.warden.prestarted_keeper import (
        How,
        KeeperPool,
        PrestartedKeeper,
        Words,
    )
else:  # the C modules: their Python wrappers cost every start 9 ms
    import _signal as signal
    import _socket as socket


class _Unenforced(Exception):
    """A required enforcement is not available; the text says why."""


class _Over(Exception):
    """Raised to end everything."""


class Warden:
    def __init__(
        self,
        harness: Channel,
        lifeline: int,
        place: levels.LevelChoice,
        lease: records.WardenRecord,
        linger: float = 0,
    ) -> None:
        self._harness: Channel | None = harness
        self._lifeline = lifeline
        self._linger = linger
        self._leave_at = 0.0  # while there is no harness
        self._last_number = 0
        self._door: ControlSocket | None = None
        self._place = place
        self._lease = lease
        self._marker = os.path.basename(lease.folder)
        self._boot = process_table.boot_id()
        self._proc = os.open("/proc", os.O_RDONLY | os.O_CLOEXEC) if LINUX else None
        self._kept: dict[int, SupervisedProgram] = {}
        self._standby: KeeperPool | None = None  # set once a program's output goes to files
        self._gate: GateProcess | None = None  # set once a program's execs are to be checked
        self._ready = select.poll()

    def serve(self) -> None:
        woken = wake_on_child_exit()
        assert self._harness
        for number in (woken, self._harness.fileno()):
            self._ready.register(number, select.POLLIN)
        if self._linger:
            from tillerman.supervision.warden.control_socket import ControlSocket

            self._door = ControlSocket(self._lease.folder, self._kept, self._ready)
        self._say("hello", *self._introduction())
        try:
            while True:
                events = {number for number, _ in self._ready.poll(self._patience())}
                if self._harness and self._harness.fileno() in events:
                    self._hear_harness(self._harness)
                if self._gate and self._gate.control.fileno() in events:
                    self._hear_gate(self._gate)  # before the end of a program that it refused
                for kept in [one for one in self._kept.values() if one.post.fileno() in events]:
                    if not self._listen(kept):
                        self._ready.unregister(kept.post.fileno())
                        kept.silent = True
                if woken in events:
                    os.read(woken, 4096)
                    self._reap()
                for kept in self._kept.values():
                    kept.end_if_hung()
                if self._standby:
                    self._standby.mind()
                if self._door:
                    self._door.serve(events)
                    if not self._harness:
                        self._await_harness(self._door)
        except (EOFError, _Over):
            self._end_all(woken)

    def _patience(self) -> float | None:
        """Returns milliseconds until the next deadline."""
        times = [job.end_by for kept in self._kept.values() if (job := kept.job) and job.end_by]
        if not self._harness:
            times.append(self._leave_at)
        if self._standby and self._standby.due:
            times.append(self._standby.due)
        return max(0.0, min(times) - time.monotonic()) * 1000 if times else None

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
            if self._standby:
                self._standby.drop()
            self._leave_at = time.monotonic() + self._linger
            for kept in list(self._kept.values()):
                if not (kept.job and kept.job.lasting):
                    kept.end(exit_file.HARNESS)

    def _obey(self, harness: Channel, message: tuple[Any, ...]) -> None:
        match message:
            case ("spawn", number, argv, cwd, env, enforcement):
                stdio = harness.take_files(3)
                try:
                    entry = self._entry(enforcement)
                    mounts = enforcement.get("mounts")
                    self._spawn(number, Program(argv, cwd, env, stdio, None, entry, mounts))
                except _Unenforced as error:
                    self._say("unenforced", number, str(error))
                except OSError as error:
                    self._say("unable", number, str(error))
                for file in stdio:
                    os.close(file)
            case ("run", number, argv, cwd, env, name, lasting, *how):
                files = harness.take_files(3)
                job = JobFolder(name, files[0], lasting=lasting)
                try:
                    self._run(number, (argv, cwd, env), files, tuple(how), job)
                except _Unenforced as error:
                    os.close(files[0])
                    self._say("unenforced", number, str(error))
                except (OSError, ImportError) as error:
                    os.close(files[0])
                    self._say("unable", number, str(error))
                for file in files[1:]:
                    os.close(file)
            case ("signal", number, signal_number) if kept := self._kept.get(number):
                kept.tell("signal", signal_number)
            case ("kill", number):
                if kept := self._kept.get(number):
                    kept.end()
            case ("last", number) if (kept := self._kept.get(number)) and kept.job:
                kept.job.lasting = True
                kept.tell("last")
            case ("input", number, data, eof) if (kept := self._kept.get(number)) and kept.job:
                if kept.job.feeding:  # a keeper that does not read must not block the warden
                    self._say("input", number, "full")
                else:
                    kept.job.feeding = True
                    kept.tell("input", data, eof)
            case ("mounts", number, plan) if kept := self._kept.get(number):
                kept.tell("mounts", plan)
            case ("watch", number, seen) if kept := self._kept.get(number):
                kept.tell("watch", seen)
            case ("exec_policy", policy) if self._gate:
                self._gate.update(policy)
            case ("end",):
                raise _Over

    def _await_harness(self, door: ControlSocket) -> None:
        """Accepts a harness that reconnects or takes over, or ends the warden."""
        if came := door.next_holder():
            os.close(self._lifeline)
            self._harness, self._lifeline = came
            self._harness.socket.setblocking(True)
            self._say("hello", *self._introduction(), self._last_number, door.programs())
            if self._gate:
                self._say("exec_gate", "")
        elif time.monotonic() >= self._leave_at or not any(
            kept.job and kept.job.lasting for kept in self._kept.values()
        ):
            raise _Over

    def _introduction(self) -> tuple[Any, ...]:
        return self._place.level, self._place.notes, os.getpid()

    # -- programs ---------------------------------------------------------------------------------

    def _run(self, number: int, program: Words, files: list[int], how: How, job: JobFolder) -> None:
        """Runs a program whose output goes to files and whose exit file is in their folder."""
        from tillerman.supervision.isolation import enforce
        from tillerman.supervision.warden.output_pump import open_flow
        from tillerman.supervision.warden.prestarted_keeper import KeeperPool

        stdin, cap, rules, enforcement = how
        entry = self._entry(enforcement)
        if self._standby is None:
            self._standby = KeeperPool(
                self._fork,
                self._place.level,
                self._lease.number,
                self._proc,
                lambda: self._gate.entry() if self._gate else None,
            )
        spare = self._standby.take(judged=entry is not None)
        if spare and self._run_by(spare, number, program, files, how, job):
            return
        flow, stdio = open_flow(files, stdin, cap)
        try:
            mounts = enforcement.get("mounts")
            made = Program(*program, stdio, lambda: enforce(rules), entry, mounts)
            self._spawn(number, made, job, flow)
        finally:
            for file in (*stdio, *flow.pipes):
                os.close(file)

    def _run_by(
        self,
        spare: PrestartedKeeper,
        number: int,
        program: Words,
        files: list[int],
        how: How,
        job: JobFolder,
    ) -> bool:
        """Runs it by a spare keeper.

        Returns False if that has ended or cannot be reached: then a keeper is forked.
        """
        marker, record = self._enroll(number, program[2])
        group = None
        try:
            group = self._group(marker, record)
            record.add_process(spare.row)
            where = group.folder if group else None
            lifeline = () if job.lasting else (self._lifeline,)
            spare.order(marker, where, program, how, [record.number, *files, *lifeline])
        except OSError:
            if group:
                group.remove()
            record.remove()
            spare.let_go()
            return False
        level = self._place.level
        self._add(SupervisedProgram(number, spare.pid, spare.post, record, group, level, job))
        return True

    def _spawn(
        self,
        number: int,
        program: Program,
        job: JobFolder | None = None,
        flow: OutputPump | None = None,
    ) -> None:
        marker, record = self._enroll(number, program.env)
        try:
            kept = self._keep(number, program, marker, record, job, flow)
        except BaseException:
            record.remove()
            raise
        record.add_process(process_table.find(kept.keeper))
        self._add(kept)
        kept.tell("go")

    def _enroll(self, number: int, env: dict[bytes, bytes]) -> tuple[str, records.ProgramRecord]:
        marker = f"{self._marker}.{number}"
        env[process_table.MARKER.encode()] = marker.encode()
        return marker, records.ProgramRecord(self._lease.folder, str(number))

    def _add(self, kept: SupervisedProgram) -> None:
        self._kept[kept.number] = kept
        self._last_number = max(kept.number, self._last_number)
        self._ready.register(kept.post.fileno(), select.POLLIN)

    def _keep(
        self,
        number: int,
        program: Program,
        marker: str,
        record: records.ProgramRecord,
        job: JobFolder | None,
        flow: OutputPump | None,
    ) -> SupervisedProgram:
        """Forks the program's keeper, which waits for the message that it is on record."""
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
        return SupervisedProgram(number, pid, ours, record, group, self._place.level, job)

    def _group(self, marker: str, record: records.ProgramRecord) -> Cgroup | None:
        record.add("boot", self._boot)
        record.add("level", self._place.level)
        if self._place.level != "cgroup":
            return None
        group = Cgroup.create(f"tillerman-{marker}")
        record.add("cgroup", group.folder)
        return group

    def _fork(self) -> int:
        if self._place.level == "namespace":
            return fork_init(user=self._place.user)
        return os.fork()

    # -- the exec gate ----------------------------------------------------------------------------

    def _entry(self, enforcement: dict[str, Any]) -> GateEntry | None:
        """Returns how a program puts itself under the gate.

        None if no gate is requested, or if it is unavailable and not required.
        """
        settings = enforcement.get("exec")
        if settings is None:
            return None
        from tillerman.supervision.exec_gate.client import GateProcess

        if self._gate is None:
            gate = GateProcess.start(settings, close_all_but)
            if isinstance(gate, str):
                if settings["required"]:
                    raise _Unenforced(gate)
                self._say("exec_gate", gate)
                return None
            self._gate = gate
            self._ready.register(gate.control.fileno(), select.POLLIN)
            self._say("exec_gate", "")
        return self._gate.entry()

    def _hear_gate(self, gate: GateProcess) -> None:
        try:
            for word, *rest in gate.control.receive():
                if word == "refused":
                    self._say("exec_refused", *rest)
                elif word == "memory":
                    gate.open_memory(*rest)
        except (EOFError, OSError):
            self._lose_gate(gate)

    def _lose_gate(self, gate: GateProcess) -> None:
        """Handles the end of the gate: the programs under it can start nothing more."""
        self._ready.unregister(gate.control.fileno())
        gate.end()
        self._gate = None
        if self._standby:
            self._standby.drop()
        self._say(
            "exec_gate", "the process that checks commands has ended: no other command can start"
        )

    # -- messages from keepers --------------------------------------------------------------------

    def _say(self, *message: Any) -> None:
        try:
            if self._harness:
                self._harness.send(*message)
        except OSError:
            pass  # the harness has ended, which `serve` is about to read

    def _listen(self, kept: SupervisedProgram) -> bool:
        """Forwards a keeper's messages; False at their end. The keeper is removed when reaped."""
        try:
            messages = kept.post.receive()
        except (EOFError, BlockingIOError):
            return False
        for word, *rest in messages:
            if word == "left":
                kept.left = rest[0]
            else:
                self._pass_on(kept, word, *rest)
        return True

    def _pass_on(self, kept: SupervisedProgram, word: str, *rest: Any) -> None:
        kept.note(word, rest)
        self._say(word, kept.number, *rest)

    def _reap(self) -> None:
        keepers = {kept.keeper: kept for kept in self._kept.values()}
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                if self._standby and pid == self._standby.pid:
                    self._standby.drop()
                if self._gate and pid == self._gate.pid:
                    self._lose_gate(self._gate)
                if kept := keepers.get(pid):
                    self._gone(kept, clean=status == 0)
        except ChildProcessError:
            return

    def _gone(self, kept: SupervisedProgram, *, clean: bool) -> None:
        """Handles the end of a keeper: its last messages, unfinished cleanup, and the report."""
        del self._kept[kept.number]
        self._hear_out(kept)
        if kept.group:
            kept.group.kill(END_WITHIN)
        if not clean and self._place.level != "namespace":
            kept.left = sorted(self._end_strays(kept))
        if not kept.ended:
            self._pass_on(kept, *kept.killed())
        kept.close()
        self._say("gone", kept.number, kept.left)
        if self._standby:
            self._standby.hurry()
        if kept.job:
            for guest in kept.job.waiting:
                guest.say("gone", kept.job.name, kept.left)

    def _hear_out(self, kept: SupervisedProgram) -> None:
        kept.post.socket.setblocking(False)
        while self._listen(kept):
            pass
        if not kept.silent:
            self._ready.unregister(kept.post.fileno())
        kept.post.close()

    def _end_strays(self, kept: SupervisedProgram) -> set[int]:
        """Kills the orphans of a killed keeper, which are now children of the warden."""
        if self._place.level == "group":
            end_group(0, f"{self._marker}.{kept.number}")
        others = {one.keeper for one in self._kept.values()}
        if self._standby:
            others.add(self._standby.pid)
        if self._gate:
            others.add(self._gate.pid)
        return process_table.end_children(others, self._reap, END_WITHIN)

    def _end_all(self, woken: int) -> None:
        deadline = time.monotonic() + END_WITHIN
        ended = select.poll()
        ended.register(woken, select.POLLIN)
        why = exit_file.TOLD if self._harness else exit_file.LEASE
        if self._standby:
            self._standby.drop()
        for kept in self._kept.values():
            kept.end(why)
        if any(kept.job for kept in self._kept.values()):
            deadline = time.monotonic() + HANGS_AFTER
        while self._kept and (left := deadline - time.monotonic()) > 0:
            if ended.poll(left * 1000):
                os.read(woken, 4096)
            self._reap()
        for kept in list(self._kept.values()):
            process_table.send(kept.keeper, signal.SIGKILL)
        if self._gate:
            self._gate.end()
            self._gate = None
        if not process_table.end_children(frozenset(), self._reap, END_WITHIN):
            self._lease.remove()


def main(control: str, lifeline: str, wanted: str, folder: str, linger: str = "0") -> None:
    """Main function of the process that `launch` starts.

    It ignores Ctrl-C and hang-ups: only the harness ends it.
    """
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
        syscalls.name_process("tillerman-warden")
        syscalls.become_subreaper()
    place = levels.choose(wanted)
    Warden(harness, lifeline, place, records.WardenRecord.open(folder), linger).serve()
