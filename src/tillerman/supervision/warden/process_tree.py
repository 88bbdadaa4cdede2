"""Kills the whole process tree of one program, at any supervision level."""

from __future__ import annotations

import os
import time

from tillerman.supervision.linux import process_table

TYPE_CHECKING = False  # `typing` and others would slow every start
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable

    from tillerman.supervision.linux.cgroup import Cgroup
else:
    import _signal as signal

END_WITHIN = 5.0


def end_process_tree(
    level: str, group: Cgroup | None, leader: int, marker: str, reap: Callable[[], bool]
) -> set[int]:
    """Returns the processes that are left."""
    if level == "namespace":
        return _end_namespace(reap)
    if group:
        group.kill(END_WITHIN)
    if level == "group":
        end_group(leader, marker)
    return process_table.end_children(frozenset(), reap, END_WITHIN)


def _end_namespace(reap: Callable[[], bool]) -> set[int]:
    """Kills the namespace as its init: no process can escape a signal to all by forking."""
    deadline = time.monotonic() + END_WITHIN
    while time.monotonic() < deadline:
        process_table.send(-1, signal.SIGKILL)
        if not reap():
            break
        time.sleep(0.0005)
    return set()  # what is left ends with this process


def end_group(leader: int, marker: str) -> None:
    """Kills the process group and the carriers of the marker, where there is no reaper."""
    if leader:
        try:  # noqa: SIM105 (as above: no contextlib)
            os.killpg(leader, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
    process_table.end(lambda: process_table.carriers(marker, process_table.snapshot()), END_WITHIN)
