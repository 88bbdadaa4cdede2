"""What a command may use up, by level. The numbers are data: this table is all there is.

All but the number of processes hold for each process by itself. The processes are those that may
be added to what runs already, because the kernel counts all of a user's; it never counts root's.
"""

from __future__ import annotations

import resource
from pathlib import Path
from typing import NamedTuple

_GB = 1024**3


class ResourceLimits(NamedTuple):
    processes: int  # and threads
    cpu: int | None = None  # seconds
    data: int | None = None  # bytes of private memory
    file: int | None = None  # bytes in one file
    files: int | None = None  # open at once


LIMITS = {
    "basic": ResourceLimits(processes=4096),
    "medium": ResourceLimits(
        processes=2048, cpu=4 * 3600, data=16 * _GB, file=16 * _GB, files=8192
    ),
    "high": ResourceLimits(processes=1024, cpu=3600, data=8 * _GB, file=4 * _GB, files=4096),
}


def limits(level: str) -> tuple[tuple[int, int], ...]:
    """As pairs for setrlimit. No level leaves core files: they hold what was in memory."""
    table = LIMITS[level]
    wanted = (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NPROC, _running() + table.processes),
        (resource.RLIMIT_CPU, table.cpu),
        (resource.RLIMIT_DATA, table.data),
        (resource.RLIMIT_FSIZE, table.file),
        (resource.RLIMIT_NOFILE, table.files),
    )
    return tuple((what, value) for what, value in wanted if value is not None)


def _running() -> int:
    """All threads of the machine, which are no fewer than the user's; a walk would cost more."""
    try:
        return int(Path("/proc/loadavg").read_text().split()[3].partition("/")[2])
    except (OSError, ValueError, IndexError):
        return 4096
