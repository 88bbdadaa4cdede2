"""Keeps the noise of other processes out of a figure, where that is permitted."""

from __future__ import annotations

import os


def go_first() -> str:
    """This process and its children run before all ordinary ones; says whether they do."""
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(50))
    except (AttributeError, OSError):
        return "beside whatever else runs here"
    return "before all ordinary processes"
