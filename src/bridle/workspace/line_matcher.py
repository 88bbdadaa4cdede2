"""Finds lines by a regular expression in texts on stdin, in a process of its own.

`python -I -S line_matcher.py PATTERN LIMIT`. Says `ready`, or what is wrong with the pattern. A
text comes as `LENGTH`, a line feed and its bytes; each line that matches goes out as `NUMBER START
END` in bytes, then `end`.
"""

from __future__ import annotations

import re
import resource
import sys

LONGEST_LINE = 10_000  # bytes; of longer ones the beginning is looked at
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
        found, at = 0, 0
        for number, line in enumerate(data.split(b"\n"), 1):
            end = at + len(line)
            if search(line[:LONGEST_LINE].removesuffix(b"\r").decode("utf-8", "replace")):
                out.write(f"{number} {at} {end}\n")
                found += 1
                if found > limit:
                    break
            at = end + 1
        out.write("end\n")
        out.flush()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
