"""What all tests share: the Python that runs them is the one that their programs find."""

from __future__ import annotations

import os
import sys
from pathlib import Path

# A version manager's `python3` is a shell script that takes longer than most tests.
os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}"
