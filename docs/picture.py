"""Draws docs/demo.svg: what `bridle demo` shows, as it is now."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

WIDTH = 100


def main() -> None:
    with tempfile.TemporaryDirectory() as home:
        shown = subprocess.run(
            [sys.executable, "-m", "bridle", "--color", "always", "demo"],
            env={"PATH": os.environ["PATH"], "HOME": home, "BRIDLE_HOME": home},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    turn = shown.split("\n\x1b[1m3. ")[0].rstrip()
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(turn))
    drawn = console.export_svg(title="bridle demo")
    drawn = re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL)  # fetched from elsewhere
    Path(__file__).with_name("demo.svg").write_text(drawn)


if __name__ == "__main__":
    main()
