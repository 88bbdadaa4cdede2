"""What all tests share: they mean the same wherever they are started from."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

# The programs of tests find the Python that runs them. A version manager's `python3` is a shell
# script that takes longer than most tests.
os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}"

# Whatever a shell starts in the background ignores interrupts, and so would all that it starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests start thousands of programs, and each would compile anew what it loads.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
