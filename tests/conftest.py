"""Settings of all tests: they run the same from any folder."""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

# The programs of tests find the Python that runs them. A version manager's `python3` is a shell
# script that takes longer than most tests.
os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}"

# Whatever a shell starts in the background ignores interrupts, and so would all that it starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests start thousands of programs, and each would compile its modules again.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def pytest_sessionstart(session: pytest.Session) -> None:
    """With `--reruns` each test sends a message to the runner and waits for the answer to the
    previous one: 40 ms for each test."""
    if line := getattr(getattr(session.config, "failures_db", None), "sock", None):
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Nine thousand tests stay in memory to the end: collecting garbage among them takes a tenth of
    the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
