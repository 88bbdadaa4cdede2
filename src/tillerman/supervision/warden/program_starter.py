"""Starts the programs of a warden, each under a keeper of its own: a forked or a prestarted one."""

# pathlib would cost every start some milliseconds
# ruff: noqa: PTH119

from __future__ import annotations

import os

from tillerman.supervision.linux import process_table
from tillerman.supervision.linux.cgroup import Cgroup
from tillerman.supervision.linux.pid_namespace import fork_init
from tillerman.supervision.linux.process_table import LINUX
from tillerman.supervision.protocol.channel import Channel
from tillerman.supervision.warden import records, supervision_level
from tillerman.supervision.warden.keeper import Keeper
from tillerman.supervision.warden.program import Program
from tillerman.supervision.warden.supervised_program import JobFolder, SupervisedProgram

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from tillerman.supervision.exec_gate.entry import GateEntry
    from tillerman.supervision.warden.output_pump import OutputPump
    from tillerman.supervision.warden.prestarted_keeper import (
        Invocation,
        KeeperPool,
        PrestartedKeeper,
        RunOptions,
    )
else:
    import _socket as socket


class ProgramStarter:
    """Starts programs. `gate_entry` returns how a prestarted keeper puts itself under the gate."""

    def __init__(
        self,
        place: supervision_level.LevelChoice,
        lease: records.WardenRecord,
        gate_entry: Callable[[], GateEntry | None],
    ) -> None:
        self.pool: KeeperPool | None = None  # set once a program's output goes to files
        self.unused_records = records.UnusedRecords()
        self._place = place
        self._lease = lease
        self._gate_entry = gate_entry
        self._boot = process_table.boot_id()
        self._proc = os.open("/proc", os.O_RDONLY | os.O_CLOEXEC) if LINUX else None

    def marker(self, number: int) -> str:
        """Returns the value of the variable that all processes of this program have."""
        return f"{os.path.basename(self._lease.folder)}.{number}"

    def run(
        self,
        number: int,
        invocation: Invocation,
        files: list[int],
        options: RunOptions,
        job: JobFolder,
        entry: GateEntry | None,
        lifeline: int,
    ) -> SupervisedProgram:
        """Runs a program whose output goes to files and whose exit file is in their folder."""
        from tillerman.supervision.isolation.enforcement import enforce, is_only_limits
        from tillerman.supervision.warden.output_pump import open_flow
        from tillerman.supervision.warden.prestarted_keeper import KeeperPool

        stdin, cap, rules, enforcement = options
        if self.pool is None:
            self.pool = KeeperPool(
                self._fork, self._place.level, self._lease.number, self._proc, self._gate_entry
            )
        mounted = self._place.level == "namespace" and enforcement.get("mounts") is not None
        kind = (entry is not None, mounted)
        if spare := self.pool.pop(kind, confined=not is_only_limits(rules)):
            supervised = self._run_prestarted(
                spare, number, invocation, files, options, job, lifeline
            )
            if supervised:
                return supervised
        flow, stdio = open_flow(files, stdin, cap)
        try:
            mounts = enforcement.get("mounts")
            program = Program(*invocation, stdio, lambda: enforce(rules), entry, mounts)
            return self.spawn(number, program, lifeline, job, flow)
        finally:
            for file in (*stdio, *flow.pipes):
                os.close(file)

    def _run_prestarted(
        self,
        spare: PrestartedKeeper,
        number: int,
        invocation: Invocation,
        files: list[int],
        options: RunOptions,
        job: JobFolder,
        lifeline: int,
    ) -> SupervisedProgram | None:
        """Returns None if the keeper has ended or cannot be reached: then one is forked."""
        marker, record = self._add_record(number, invocation[2])
        group = None
        try:
            group = self._create_group(marker)
            self._describe(record, group, spare.row)
            where = group.folder if group else None
            passed = [record.number, *files, *(() if job.lasting else (lifeline,))]
            spare.run(marker, where, invocation, options, passed)
        except OSError:
            if group:
                group.remove()
            record.remove()
            spare.kill()
            return None
        level = self._place.level
        return SupervisedProgram(number, spare.pid, spare.channel, record, group, level, job)

    def spawn(
        self,
        number: int,
        program: Program,
        lifeline: int,
        job: JobFolder | None = None,
        flow: OutputPump | None = None,
    ) -> SupervisedProgram:
        """Runs a program under a forked keeper, which starts it once it is on record."""
        marker, record = self._add_record(number, program.env)
        try:
            group = self._create_group(marker)
            self._describe(record, group)
            record.add("pipes", *(os.fstat(file).st_ino for file in program.stdio))
            keeper = Keeper(
                program,
                level=self._place.level,
                marker=marker,
                record=record,
                group=group,
                flow=flow,
            )
            ours, theirs = (Channel(end) for end in socket.socketpair())
            pid = self._fork()
            if pid == 0:
                held = None if job and job.lasting else lifeline
                keeper.run(theirs, held, self._lease.number, self._proc)
            theirs.close()
        except BaseException:
            record.remove()
            raise
        supervised = SupervisedProgram(number, pid, ours, record, group, self._place.level, job)
        record.add_process(process_table.find(pid))
        supervised.send("go")
        return supervised

    def _add_record(
        self, number: int, env: dict[bytes, bytes]
    ) -> tuple[str, records.ProgramRecord]:
        marker = self.marker(number)
        env[process_table.MARKER.encode()] = marker.encode()
        record = self.unused_records.pop()
        return marker, record or records.ProgramRecord(self._lease.folder, str(number))

    def _create_group(self, marker: str) -> Cgroup | None:
        return Cgroup.create(f"tillerman-{marker}") if self._place.level == "cgroup" else None

    def _describe(
        self,
        record: records.ProgramRecord,
        group: Cgroup | None,
        keeper: process_table.ProcessRow | None = None,
    ) -> None:
        lines: list[tuple[object, ...]] = [("boot", self._boot), ("level", self._place.level)]
        if group:
            lines.append(("cgroup", group.folder))
        if keeper:
            lines.append(("process", keeper.pid, keeper.start))
        record.add_all(*lines)

    def _fork(self) -> int:
        if self._place.level == "namespace":
            return fork_init(user=self._place.user)
        return os.fork()
