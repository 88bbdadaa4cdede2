"""Finds lines by a regular expression, in a process of its own, since some come to no end.

`python -I -S line_finder.py IMPORTS PATTERN FROM LIMIT SECONDS`, the file on stdin. Writes
`OFFSET POSITION` of each line that matches and of the match in it, then `next OFFSET WHY`;
`bad MESSAGE` for a pattern that is none.
"""

from __future__ import annotations

import os
import re
import resource
import signal
import sys
from io import BytesIO

TYPE_CHECKING = False  # every start of this program would wait for `typing`

if TYPE_CHECKING:
    from collections.abc import Iterator

if __name__ == "__main__":
    sys.path.insert(0, sys.argv.pop(1))

from tillerman.core.terminal_sanitizer import clean  # noqa: E402 - found by the path that was just told

CHUNK = 256 << 10  # a longer line is looked at in pieces
PATIENCE = 0.3  # seconds for the line that is under way when time is over
MEMORY = 512 << 20


class _Slow(Exception):
    """One line takes too long."""


class _Clock:
    """Time is over: the line under way may end, if it ends soon."""

    def __init__(self, seconds: float) -> None:
        self.over = False
        signal.signal(signal.SIGALRM, self._rings)
        signal.setitimer(signal.ITIMER_REAL, seconds, PATIENCE)

    def _rings(self, *_: object) -> None:
        if self.over:
            raise _Slow
        self.over = True


def find(pattern: re.Pattern[str], start: int, limit: int, clock: _Clock) -> tuple[int, str]:
    """Where to go on, and why it ended: `end`, `limit`, `time` or `slow`."""
    found, at, line = 0, start, b""
    try:
        for at, line in _lines(start):
            if clock.over:
                return at, "time"
            text = clean(line.decode("utf-8", "replace").removesuffix("\n"))
            if match := pattern.search(text):
                position = len(text[: match.start()].encode("utf-8", "replace"))
                sys.stdout.write(f"{at} {position}\n")
                found += 1
                if found >= limit:
                    return at + len(line), "limit"
    except _Slow:
        return at + len(line), "slow"
    return at + len(line), "end"


def _lines(at: int) -> Iterator[tuple[int, bytes]]:
    """Each with where it begins; the newline belongs to it."""
    rest = b""
    while chunk := os.pread(0, CHUNK, at + len(rest)):
        lines = BytesIO(rest + chunk).readlines()
        rest = b"" if len(lines[-1]) > CHUNK or lines[-1].endswith(b"\n") else lines.pop()
        for line in lines:
            yield at, line
            at += len(line)
    if rest:
        yield at, rest


def main() -> None:
    pattern, start, limit, seconds = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    whole = int(float(seconds)) + 2
    resource.setrlimit(resource.RLIMIT_CPU, (whole, whole))
    try:
        compiled = re.compile(pattern)
    except (re.error, OverflowError, RecursionError, MemoryError) as error:
        sys.stdout.write(f"bad {str(error)[:200]!r}\n")
        return
    ended, why = find(compiled, int(start), int(limit), _Clock(float(seconds)))
    sys.stdout.write(f"next {ended} {why}\n")


if __name__ == "__main__":
    main()
