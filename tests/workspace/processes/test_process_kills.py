"""Whichever process is killed at any moment, no command outlives its lease and none is lost."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import pytest

from tests.workspace.process_kills import run_rounds
from tillerman.supervision.client.supervision_levels import Level, probe


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("level", [Level.NAMESPACE, Level.CGROUP, Level.SUBREAPER])
def test_kills_at_random_moments_leave_no_command_behind(level: Level, tmp_path: Path) -> None:
    if reason := asyncio.run(probe())[level]:
        pytest.skip(reason)
    done = run_rounds(5, [level], seed=time.time_ns(), folder=tmp_path, linger=0.5)
    assert [one for one in done if one.left or one.is_outside] == []
