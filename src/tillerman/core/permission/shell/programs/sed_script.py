"""Checks whether a sed script does nothing but print; others may write files or run programs."""

from __future__ import annotations

import re

_ADDRESS = r"(?:\d+(?:~\d+)?|\$|\+\d+|/(?:[^/\\\n]|\\.)*/I?)"
_REPLACE = "|".join(
    "[sy]{0}(?:[^{0}\\\\\n]|\\\\.)*{0}(?:[^{0}\\\\\n]|\\\\.)*{0}[gpiIm\\d]*".format(re.escape(d))
    for d in "/|,#@:"
)
_COMMAND = re.compile(
    rf"(?:{_ADDRESS}(?:\s*,\s*{_ADDRESS})?\s*!?\s*)?"
    rf"(?:[pdDPNnhHgGxl=]|[qQ]\d*|[aic](?:\\|[ \t])[^\n]*|{_REPLACE}|(?=\{{))"
)
# `r`, `R`, `w` and `W` take the rest of a line; `w` may also end a replacement.
FILES = re.compile(r"(?:^|(?<=[\s;{}!$/|,#@:\dgpiIm]))([rRwW])[ \t]*([^\s][^\n]*)", re.MULTILINE)
_BETWEEN = re.compile(r"[\s;{}]*")
_LONGEST = 2_000


def only_prints(script: str) -> bool:
    if len(script) > _LONGEST:
        return False
    at = 0
    while True:
        between = _BETWEEN.match(script, at)
        at = between.end() if between else at
        if at == len(script):
            return True
        match = _COMMAND.match(script, at)
        if match is None or match.end() == at:
            return False
        at = match.end()
        if at < len(script) and script[at] not in " \t\n;{}":
            return False
