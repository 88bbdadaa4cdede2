"""The warden process: parent of a session's programs, all ended when the harness has ended.

Runs as a separate process with only the standard library; `launch` starts it. Messages in: spawn,
run, last, input, watch, signal, kill, end. Messages out: hello or refused; then per program started
or failed, exited or ended, gone. When the harness's end of the socket closes, for whatever reason,
everything ends; a warden that may linger keeps lasting programs for some time, until a harness
reconnects.
"""

from __future__ import annotations

import os
import select
import time

from tillerman.supervision.linux import process_table, syscalls
from tillerman.supervision.linux.process_table import LINUX
from tillerman.supervision.protocol.channel import Channel
from tillerman.supervision.warden import exit_file, records, supervision_level
from tillerman.supervision.warden.keeper import (
    close_all_but,
    wake_on_child_exit,
)
from tillerman.supervision.warden.process_tree import END_WITHIN, end_group
from tillerman.supervision.warden.program import Program
from tillerman.supervision.warden.program_starter import ProgramStarter
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
    from tillerman.supervision.warden.prestarted_keeper import Invocation, RunOptions
else:  # the C modules: their Python wrappers cost every start 9 ms
    import _signal as signal
    import _socket as socket


class _NotEnforced(Exception):
    """A required enforcement is not available; the text says why."""


class _EndAll(Exception):
    """Raised to end everything."""


class Warden:
    def __init__(
        self,
        harness: Channel,
        lifeline: int,
        place: supervision_level.LevelChoice,
        lease: records.WardenRecord,
        linger: float = 0,
    ) -> None:
        self._harness: Channel | None = harness
        self._lifeline = lifeline
        self._linger = linger
        self._leave_at = 0.0  # while there is no harness
        self._last_number = 0
        self._control: ControlSocket | None = None
        self._place = place
        self._lease = lease
        self._starter = ProgramStarter(
            place, lease, lambda: self._gate.entry() if self._gate else None
        )
        self._programs: dict[int, SupervisedProgram] = {}
        self._gate: GateProcess | None = None  # set once a program's execs are to be checked
        self._ready = select.poll()

    def serve(self) -> None:
        wake_pipe = wake_on_child_exit()
        assert self._harness
        for number in (wake_pipe, self._harness.fileno()):
            self._ready.register(number, select.POLLIN)
        if self._linger:
            from tillerman.supervision.warden.control_socket import ControlSocket

            self._control = ControlSocket(self._lease.folder, self._programs, self._ready)
        self._send("hello", *self._description())
        try:
            while True:
                events = {number for number, _ in self._ready.poll(self._poll_timeout())}
                if self._harness and self._harness.fileno() in events:
                    self._read_harness(self._harness)
                if self._gate and self._gate.control.fileno() in events:
                    self._read_gate(self._gate)  # before the end of a program that it refused
                for program in [
                    one for one in self._programs.values() if one.channel.fileno() in events
                ]:
                    if not self._read_keeper(program):
                        self._ready.unregister(program.channel.fileno())
                        program.silent = True
                if wake_pipe in events:
                    os.read(wake_pipe, 4096)
                    self._reap()
                for program in self._programs.values():
                    program.end_if_hung()
                if self._starter.pool:
                    self._starter.pool.poll()
                if self._control:
                    self._control.serve(events)
                    if not self._harness:
                        self._await_harness(self._control)
        except (EOFError, _EndAll):
            self._end_all(wake_pipe)

    def _poll_timeout(self) -> float | None:
        """Returns milliseconds until the next deadline."""
        times = [
            job.end_by for program in self._programs.values() if (job := program.job) and job.end_by
        ]
        if not self._harness:
            times.append(self._leave_at)
        if self._starter.pool and self._starter.pool.due:
            times.append(self._starter.pool.due)
        return max(0.0, min(times) - time.monotonic()) * 1000 if times else None

    def _read_harness(self, harness: Channel) -> None:
        try:
            for message in harness.receive():
                self._handle(harness, message)
        except EOFError:
            if not self._control:
                raise
            self._ready.unregister(harness.fileno())
            harness.close()
            self._harness = None
            if self._starter.pool:
                self._starter.pool.drop()
            self._leave_at = time.monotonic() + self._linger
            for program in list(self._programs.values()):
                if not (program.job and program.job.lasting):
                    program.end(exit_file.HARNESS)

    def _handle(self, harness: Channel, message: tuple[Any, ...]) -> None:
        match message:
            case ("spawn", number, argv, cwd, env, enforcement):
                stdio = harness.pop_files(3)
                try:
                    entry = self._entry(enforcement)
                    mounts = enforcement.get("mounts")
                    launched = Program(argv, cwd, env, stdio, None, entry, mounts)
                    self._add(self._starter.spawn(number, launched, self._lifeline))
                except _NotEnforced as error:
                    self._send("unenforced", number, str(error))
                except OSError as error:
                    self._send("unable", number, str(error))
                for file in stdio:
                    os.close(file)
            case ("run", number, argv, cwd, env, name, lasting, *options):
                files = harness.pop_files(3)
                job = JobFolder(name, files[0], lasting=lasting)
                try:
                    self._add(self._run(number, (argv, cwd, env), files, tuple(options), job))
                except _NotEnforced as error:
                    os.close(files[0])
                    self._send("unenforced", number, str(error))
                except (OSError, ImportError) as error:
                    os.close(files[0])
                    self._send("unable", number, str(error))
                for file in files[1:]:
                    os.close(file)
            case ("signal", number, signal_number) if program := self._programs.get(number):
                program.send("signal", signal_number)
            case ("kill", number):
                if program := self._programs.get(number):
                    program.end()
            case ("last", number) if (program := self._programs.get(number)) and program.job:
                program.job.lasting = True
                program.send("last")
            case ("input", number, data, eof) if (
                program := self._programs.get(number)
            ) and program.job:
                if program.job.feeding:  # a keeper that does not read must not block the warden
                    self._send("input", number, "full")
                else:
                    program.job.feeding = True
                    program.send("input", data, eof)
            case ("mounts", number, plan) if program := self._programs.get(number):
                program.send("mounts", plan)
            case ("watch", number, seen) if program := self._programs.get(number):
                program.send("watch", seen)
            case ("exec_policy", policy) if self._gate:
                self._gate.update(policy)
            case ("end",):
                raise _EndAll

    def _await_harness(self, control: ControlSocket) -> None:
        """Accepts a harness that reconnects or takes over, or ends the warden."""
        if came := control.next_holder():
            os.close(self._lifeline)
            self._harness, self._lifeline = came
            self._harness.socket.setblocking(True)
            self._send("hello", *self._description(), self._last_number, control.programs())
            if self._gate:
                self._send("exec_gate", "")
        elif time.monotonic() >= self._leave_at or not any(
            program.job and program.job.lasting for program in self._programs.values()
        ):
            raise _EndAll

    def _description(self) -> tuple[Any, ...]:
        return self._place.level, self._place.notes, os.getpid()

    # -- programs ---------------------------------------------------------------------------------

    def _run(
        self,
        number: int,
        invocation: Invocation,
        files: list[int],
        options: RunOptions,
        job: JobFolder,
    ) -> SupervisedProgram:
        entry = self._entry(options[3])
        return self._starter.run(number, invocation, files, options, job, entry, self._lifeline)

    def _add(self, program: SupervisedProgram) -> None:
        self._programs[program.number] = program
        self._last_number = max(program.number, self._last_number)
        self._ready.register(program.channel.fileno(), select.POLLIN)

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
                    raise _NotEnforced(gate)
                self._send("exec_gate", gate)
                return None
            self._gate = gate
            self._ready.register(gate.control.fileno(), select.POLLIN)
            self._send("exec_gate", "")
        return self._gate.entry()

    def _read_gate(self, gate: GateProcess) -> None:
        try:
            for word, *rest in gate.control.receive():
                if word == "refused":
                    self._send("exec_refused", *rest)
                elif word == "memory":
                    gate.open_memory(*rest)
        except (EOFError, OSError):
            self._lose_gate(gate)

    def _lose_gate(self, gate: GateProcess) -> None:
        """Handles the end of the gate: the programs under it can start nothing more."""
        self._ready.unregister(gate.control.fileno())
        gate.end()
        self._gate = None
        if self._starter.pool:
            self._starter.pool.drop()
        self._send(
            "exec_gate", "the process that checks commands has ended: no other command can start"
        )

    # -- messages from keepers --------------------------------------------------------------------

    def _send(self, *message: Any) -> None:
        try:
            if self._harness:
                self._harness.send(*message)
        except OSError:
            pass  # the harness has ended, which `serve` is about to read

    def _read_keeper(self, program: SupervisedProgram) -> bool:
        """Forwards a keeper's messages; False at their end. The keeper is removed when reaped."""
        try:
            messages = program.channel.receive()
        except (EOFError, BlockingIOError):
            return False
        for word, *rest in messages:
            if word == "left":
                program.left = rest[0]
            elif word == "written" and self._starter.pool:
                self._starter.pool.learn(rest[0])
            else:
                self._forward(program, word, *rest)
        return True

    def _forward(self, program: SupervisedProgram, word: str, *rest: Any) -> None:
        program.record_message(word, rest)
        self._send(word, program.number, *rest)

    def _reap(self) -> None:
        keepers = {program.keeper: program for program in self._programs.values()}
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                if self._starter.pool and pid == self._starter.pool.pid:
                    self._starter.pool.drop()
                if self._gate and pid == self._gate.pid:
                    self._lose_gate(self._gate)
                if program := keepers.get(pid):
                    self._gone(program, clean=status == 0)
        except ChildProcessError:
            return

    def _gone(self, program: SupervisedProgram, *, clean: bool) -> None:
        """Handles the end of a keeper: its last messages, unfinished cleanup, and the report."""
        del self._programs[program.number]
        self._read_rest(program)
        if program.group:
            program.group.kill(END_WITHIN)
        if not clean and self._place.level != "namespace":
            program.left = sorted(self._end_strays(program))
        if not program.ended:
            self._forward(program, *program.killed())
        program.close(self._starter.unused_records)
        self._send("gone", program.number, program.left)
        if self._starter.pool:
            self._starter.pool.start_soon()
        if program.job:
            for client in program.job.waiting:
                client.send("gone", program.job.name, program.left)

    def _read_rest(self, program: SupervisedProgram) -> None:
        program.channel.socket.setblocking(False)
        while self._read_keeper(program):
            pass
        if not program.silent:
            self._ready.unregister(program.channel.fileno())
        program.channel.close()

    def _end_strays(self, program: SupervisedProgram) -> set[int]:
        """Kills the orphans of a killed keeper, which are now children of the warden."""
        if self._place.level == "group":
            end_group(0, self._starter.marker(program.number))
        others = {one.keeper for one in self._programs.values()}
        if self._starter.pool:
            others.add(self._starter.pool.pid)
        if self._gate:
            others.add(self._gate.pid)
        return process_table.end_children(others, self._reap, END_WITHIN)

    def _end_all(self, wake_pipe: int) -> None:
        deadline = time.monotonic() + END_WITHIN
        ended = select.poll()
        ended.register(wake_pipe, select.POLLIN)
        why = exit_file.REQUESTED if self._harness else exit_file.LEASE
        if self._starter.pool:
            self._starter.pool.drop()
        for program in self._programs.values():
            program.end(why)
        if any(program.job for program in self._programs.values()):
            deadline = time.monotonic() + HANGS_AFTER
        while self._programs and (left := deadline - time.monotonic()) > 0:
            if ended.poll(left * 1000):
                os.read(wake_pipe, 4096)
            self._reap()
        for program in list(self._programs.values()):
            process_table.send(program.keeper, signal.SIGKILL)
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
    except supervision_level.Unavailable as error:
        harness.send("refused", error.level, error.reason)


def _serve(harness: Channel, lifeline: int, wanted: str, folder: str, linger: float) -> None:
    if LINUX:
        syscalls.name_process("tillerman-warden")
        syscalls.become_subreaper()
    place = supervision_level.choose(wanted)
    Warden(harness, lifeline, place, records.WardenRecord.open(folder), linger).serve()
