"""The program of a keeper: what its process does between fork and exec."""

from __future__ import annotations

import errno
import os

from tillerman.supervision.protocol.channel import frame

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, NoReturn

    from tillerman.supervision.exec_gate.entry import GateEntry
    from tillerman.supervision.linux.cgroup import Cgroup
    from tillerman.supervision.linux.process_table import ProcessRow
    from tillerman.supervision.warden.records import ProgramRecord


class Program:
    """The program to run, and the files for its stdin, stdout and stderr.

    `confine` is called in its own process right before it runs; before that, `entry` has its later
    execs checked. `mounts`: what only a keeper in a namespace can mount (see `mounts`).
    """

    def __init__(
        self,
        argv: list[bytes],
        cwd: bytes,
        env: dict[bytes, bytes],
        stdio: Sequence[int],
        confine: Callable[[], None] | None = None,
        entry: GateEntry | None = None,
        mounts: dict[str, Any] | None = None,
    ) -> None:
        self.argv = argv
        self.cwd = cwd
        self.env = env
        self.stdio = stdio
        self.confine = confine
        self.entry = entry
        self.mounts = mounts
        self.mounted = False

    @property
    def files(self) -> list[int]:
        """Returns the files that its process needs open."""
        return [*self.stdio, *((self.entry.entry_socket,) if self.entry else ())]

    def become(self, pid: int) -> NoReturn:
        """Replaces this process by the program. `pid`: of this process, as the warden sees it."""
        for target, number in enumerate(self.stdio):
            os.dup2(number, target)
        os.chdir(self.cwd)
        if self.entry:
            self.entry.enter(pid, self.argv)
        if self.mounted:  # not earlier: installing a filter needs one of these capabilities
            from tillerman.supervision.warden.mounts import drop_capabilities

            drop_capabilities()
        if self.confine:
            self.confine()
        self.first_found(lambda path: os.execve(path, self.argv, self.env))
        raise AssertionError("exec does not return")

    def first_found(self, run: Callable[[bytes], int]) -> int:
        """Calls `run` with each path that the program may have, until one exists."""
        name = self.argv[0]
        code = errno.ENOENT
        for path in [name] if b"/" in name else self._on_path(name):
            try:
                return run(path)
            except (FileNotFoundError, NotADirectoryError):
                continue  # the next folder on PATH may have it
            except PermissionError:
                code = errno.EACCES
        raise OSError(code, os.strerror(code), name)

    def _on_path(self, name: bytes) -> list[bytes]:
        folders = self.env.get(b"PATH", os.defpath.encode()).split(b":")
        return [(folder or b".") + b"/" + name for folder in folders]


def enter(
    program: Program,
    myself: ProcessRow,
    record: ProgramRecord,
    group: Cgroup | None,
    gate: int,
) -> NoReturn:
    """Records the process before it runs; reporting it is the last step before exec."""
    if group:
        group.enter()
    record.add_process(myself)
    os.write(gate, frame((myself.pid, myself.start)))
    program.become(myself.pid)
