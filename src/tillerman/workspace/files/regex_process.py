"""Script that matches a regular expression in texts from stdin, in a separate process.

Usage: `python -I -S regex_process.py PATTERN LIMIT`. Prints `ready`, or the error in the pattern. A
text is sent as `LENGTH`, a line feed and its bytes; each matching line is printed as `NUMBER START
END` in bytes, then `end`.
"""

from __future__ import annotations

import re
import resource
import sys

TYPE_CHECKING = False  # importing `typing` would double the startup time

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST_LINE = 10_000  # characters; only the beginning of a longer line is searched
_CPU_SECONDS = 30
_MEMORY = 512 << 20


def main(pattern: str, limit: int) -> None:
    for what, most in ((resource.RLIMIT_CPU, _CPU_SECONDS), (resource.RLIMIT_AS, _MEMORY)):
        resource.setrlimit(what, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    out, texts = sys.stdout, sys.stdin.buffer
    try:
        search = re.compile(pattern).search
    except (re.error, OverflowError, RecursionError) as error:
        out.write(str(error).replace("\n", " ")[:200] + "\n")
        out.flush()
        return
    out.write("ready\n")
    out.flush()
    while length := texts.readline():
        data = texts.read(int(length))
        lines = data.decode("utf-8", "replace").split("\n")
        found = [at for at, line in enumerate(lines) if search(line[:LONGEST_LINE].rstrip("\r"))]
        spans = _spans(data, found[: limit + 1])
        out.writelines(f"{number} {start} {end}\n" for number, start, end in spans)
        out.write("end\n")
        out.flush()


def _spans(data: bytes, found: list[int]) -> Iterator[tuple[int, int, int]]:
    at = line = 0
    for wanted in found:
        for _ in range(wanted - line):
            at = data.index(b"\n", at) + 1
        line = wanted
        end = data.find(b"\n", at)
        yield line + 1, at, len(data) if end < 0 else end


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
