"""The warden's state of one program and its keeper."""

# contextlib would cost every start some milliseconds
# ruff: noqa: SIM105

from __future__ import annotations

import os
import time

from tillerman.supervision.linux import process_table
from tillerman.supervision.warden import exit_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Sequence
    from typing import Any

    from tillerman.supervision.linux.cgroup import Cgroup
    from tillerman.supervision.protocol.channel import Channel
    from tillerman.supervision.warden.control_socket import ControlClient
    from tillerman.supervision.warden.records import ProgramRecord, UnusedRecords
else:
    import _signal as signal

# seconds until a keeper that was asked to end its program and drain its output is killed
HANGS_AFTER = 1.0
_READ_WITHIN = 3.0  # the same while a client waits to read the output

ENDS = ("failed", "unable", "ended")  # final messages about a program whose output goes to files


class JobFolder:
    """Additional state of a program whose output goes to files."""

    def __init__(self, name: str, folder: int, *, lasting: bool) -> None:
        self.name = name
        self.folder = folder
        self.lasting = lasting
        self.pid = 0
        self.start = ""
        self.end_by: float | None = None  # deadline of its keeper, which is killed if it hangs
        self.why = exit_file.KEEPER
        self.feeding = False
        self.waiting: list[ControlClient] = []  # clients waiting for its end


class SupervisedProgram:
    def __init__(
        self,
        number: int,
        keeper: int,
        channel: Channel,
        record: ProgramRecord,
        group: Cgroup | None,
        level: str,
        job: JobFolder | None,
    ) -> None:
        self.number = number
        self.keeper = keeper
        self.channel = channel
        self.record = record
        self.group = group
        self.job = job
        self.ended = False
        self.silent = False
        self.left: list[int] = []
        self._level = level

    def send(self, *message: Any) -> None:
        try:
            self.channel.send(*message)
        except OSError:
            pass  # the keeper is ending by itself; SIGCHLD follows

    def record_message(self, word: str, rest: Sequence[Any]) -> None:
        """Records a message from its keeper."""
        if not self.job:
            self.ended = self.ended or word not in ("started", "mounted")
        elif word == "started":
            self.job.pid, self.job.start = rest
        elif word == "input":
            self.job.feeding = False
        elif word in ENDS:
            self.ended = True

    def end(self, why: str = exit_file.REQUESTED) -> None:
        if self.job:  # its output must be complete, and its exit file written
            if not self.job.end_by:
                self.job.why = why
                within = _READ_WITHIN if why == exit_file.REQUESTED else HANGS_AFTER
                self.job.end_by = time.monotonic() + within
            self.send("kill", why)
        elif self._level == "namespace":
            process_table.send(self.keeper, signal.SIGKILL)
        else:
            self.send("kill")

    def end_if_hung(self) -> None:
        if self.job and self.job.end_by and self.job.end_by <= time.monotonic():
            self.job.end_by = None
            process_table.send(self.keeper, signal.SIGKILL)

    def killed(self) -> tuple[Any, ...]:
        """Returns the end message of a killed keeper, and writes its exit file."""
        status = int(signal.SIGKILL)
        if not self.job:
            return "exited", status
        end = exit_file.read(self.job.folder)
        if end is None:
            sizes = exit_file.sizes_on_disk(self.job.folder)
            end = exit_file.ExitFile(status, time.time(), sizes, self.job.why)
            exit_file.write(self.job.folder, end)
        return "ended", end.status, end.at, end.sizes, end.why

    def close(self, unused: UnusedRecords) -> None:
        """Cleans up after its keeper ended; processes that survive stay on record."""
        if self.job:
            os.close(self.job.folder)
        for pid in self.left:
            self.record.add_process(process_table.find(pid))
        if not self.left:
            if self.group:
                self.group.remove()
            unused.add(self.record)
