"""Script that searches a file for lines by a regular expression, in a separate process.

It is a separate process because some expressions never terminate. Usage: `python -I -S
regex_client.py IMPORTS PATTERN FROM LIMIT SECONDS`, with the file on stdin. Prints `OFFSET
POSITION` of each matching line and of the match in it, then `next OFFSET WHY`; or `bad MESSAGE` for
an invalid pattern.
"""

from __future__ import annotations

import os
import re
import resource
import signal
import sys
from io import BytesIO

TYPE_CHECKING = False  # importing `typing` would slow down every start

if TYPE_CHECKING:
    from collections.abc import Iterator

if __name__ == "__main__":
    sys.path.insert(0, sys.argv.pop(1))

from tillerman.core.terminal_sanitizer import clean  # noqa: E402 - found by the path added above

CHUNK = 256 << 10  # a longer line is searched in pieces
MAX_WAIT = 0.3  # seconds for the current line after the time limit
MEMORY = 512 << 20


class _Slow(Exception):
    """One line takes too long."""


class _Clock:
    """The time limit: the current line may finish, if it does so soon."""

    def __init__(self, seconds: float) -> None:
        self.over = False
        signal.signal(signal.SIGALRM, self._on_alarm)
        signal.setitimer(signal.ITIMER_REAL, seconds, MAX_WAIT)

    def _on_alarm(self, *_: object) -> None:
        if self.over:
            raise _Slow
        self.over = True


def find(pattern: re.Pattern[str], start: int, limit: int, clock: _Clock) -> tuple[int, str]:
    """Returns the next offset, and why it ended: `end`, `limit`, `time` or `slow`."""
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
    """Yields each line, including its newline, with its offset."""
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
