"""Real-time priority for benchmarks, where permitted, against the noise of other processes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

CORES = 2


@contextmanager
def first_in_line() -> Iterator[str]:
    """Runs this process and its children on two cores, before all ordinary processes.

    Yields a text that describes it.
    """
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(cores)[:CORES])
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(50))
    except PermissionError:
        where = "beside whatever else runs there"
    else:
        where = "before all ordinary processes"
    try:
        yield f"on {min(CORES, len(cores))} cores, {where}"
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        os.sched_setaffinity(0, cores)
