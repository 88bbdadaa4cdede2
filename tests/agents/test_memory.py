"""Memory stays bounded under a flood: the short form of `bench/stdio_memory.py`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench" / "stdio_memory.py"


@pytest.mark.parametrize("kind", ["unbroken", "lines", "garbage", "json", "stderr"])
def test_50_mb_of_anything_cost_less_than_64_mb(kind: str) -> None:
    done = subprocess.run(
        [sys.executable, str(BENCH), "50", kind], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{kind} " in done.stdout
