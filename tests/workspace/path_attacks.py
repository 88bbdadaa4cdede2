"""Processes that swap names under a workspace as fast as they can, and the files outside of it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

SECRET = "THE-SECRET-OUTSIDE"

# by RENAME_EXCHANGE, so that both names are always there
_SWAPPER = """
import ctypes, os, sys, time
libc = ctypes.CDLL(None)
pairs = [(os.fsencode(a), os.fsencode(b)) for a, b in zip(sys.argv[2::2], sys.argv[3::2])]
end = time.monotonic() + float(sys.argv[1])
parent = os.getppid()
print(1, flush=True)
while time.monotonic() < end and os.getppid() == parent:
    for _ in range(500):
        for a, b in pairs:
            libc.renameat2(-100, a, -100, b, 2)
"""


class Stage:
    """A workspace in which a folder, a nested folder and a file are swapped for links that lead
    outside.

    Each is in a folder that is not swapped: otherwise a name below a swapped one would sometimes be
    a name outside, and the swapper would move that inside by itself.
    """

    PATHS = ("box/file", "box/inner/file", "kept/inner/file", "kept/file")

    def __init__(self, base: Path, listed: str = "") -> None:
        self.work, self.outside = base / "work", base / "outside"
        for top, text in ((self.outside, f"{SECRET}\n"), (self.work, "mine\n")):
            for folder in ("", "box", "box/inner", "kept", "kept/inner", "inner"):
                (top / folder).mkdir(parents=True, exist_ok=True)
                for name in ("file", "other"):
                    (top / folder / name).write_text(text)
        if listed:
            for folder in ("", "box", "inner"):
                (self.outside / folder / listed).write_text(SECRET)
        (self.outside / ".gitignore").write_text(f"{SECRET}\n")
        (self.work / "box-link").symlink_to(self.outside)
        (self.work / "kept" / "inner-link").symlink_to("../../outside/inner")
        (self.work / "kept" / "file-link").symlink_to(self.outside / "file")
        self._before = self._outside()

    def pairs(self) -> list[Path]:
        names = ("box", "kept/inner", "kept/file")
        return [self.work / (name + end) for name in names for end in ("", "-link")]

    @contextlib.contextmanager
    def swapping(self, seconds: float = 900) -> Iterator[None]:
        names = [str(path) for path in self.pairs()]
        with subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _SWAPPER, str(seconds), *names],
            stdout=subprocess.PIPE,
        ) as swapper:
            assert swapper.stdout and swapper.stdout.readline() == b"1\n"
            try:
                yield
            finally:
                swapper.kill()

    def escapes(self) -> list[str]:
        """What changed outside."""
        return sorted(self._before ^ self._outside())

    def _outside(self) -> set[str]:
        found = set()
        for folder, folders, files in os.walk(self.outside):
            found |= {f"{folder}/{name}" for name in folders}
            for name in files:
                path = Path(folder, name)
                found.add(f"{path} {path.read_text()} {path.stat().st_mode}")
        return found
