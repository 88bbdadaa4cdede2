"""Resource limits (rlimits) of a command for each isolation level.

All limits except the number of processes apply per process. The number of processes is added to
those that already run, because the kernel counts all processes of a user; it never counts root's.
"""

from __future__ import annotations

import resource
from typing import NamedTuple

from tillerman.supervision.linux.process_table import read

_GB = 1024**3


class ResourceLimits(NamedTuple):
    processes: int  # including threads
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
    """Returns pairs for setrlimit. Core files are always off: they would contain memory."""
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
    """Counts all threads of the machine, an upper bound of the user's; a /proc walk costs more."""
    try:
        return int(read("/proc/loadavg").split()[3].partition(b"/")[2])
    except (OSError, ValueError, IndexError):
        return 4096
