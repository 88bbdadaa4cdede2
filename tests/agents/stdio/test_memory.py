"""Memory stays bounded under a flood: the short form of `bench/stdio_memory.py`."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests import CHECKOUT

BENCH = CHECKOUT / "bench" / "stdio_memory.py"


@pytest.mark.parametrize(
    ("size", "kind"),
    [
        ("50", "unbroken"),
        ("15", "lines"),
        ("10", "garbage"),
        ("50", "json"),
        ("50", "stderr"),
        pytest.param("50", "lines", marks=pytest.mark.torture),
        pytest.param("50", "garbage", marks=pytest.mark.torture),
    ],
)
def test_a_flood_of_anything_costs_less_than_64_mb(size: str, kind: str) -> None:
    done = subprocess.run(
        [sys.executable, str(BENCH), size, kind], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{kind} " in done.stdout
