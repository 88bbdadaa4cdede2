"""Scripts of sed that surely do nothing but print: all others may write files or run programs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_ADDRESS = r"(?:\d+(?:~\d+)?|\$|\+\d+|/(?:[^/\\\n]|\\.)*/I?)"
_REPLACE = "|".join(
    "[sy]{0}(?:[^{0}\\\\\n]|\\\\.)*{0}(?:[^{0}\\\\\n]|\\\\.)*{0}[gpiIm\\d]*".format(re.escape(d))
    for d in "/|,#@:"
)
_COMMAND = re.compile(
    rf"(?:{_ADDRESS}(?:\s*,\s*{_ADDRESS})?\s*!?\s*)?"
    rf"(?:[pdDPNnhHgGxl=]|q\d*|[aic](?:\\|\s)[^\n]*|{_REPLACE}|(?=\{{))"
)
_BETWEEN = re.compile(r"[\s;{}]*")
_LONGEST = 2_000


def is_unsure(words: Sequence[str]) -> bool:
    """Whether one of its scripts cannot be read, or stands in a file."""
    return any(script is None or not _only_prints(script) for script in _scripts(words))


def _scripts(words: Sequence[str]) -> Iterator[str | None]:
    given, first = False, None
    rest = iter(words[1:])
    for word in rest:
        name, equals, value = word.partition("=")
        if word.startswith("--f") or (word[:1] == "-" and word[1:2] != "-" and "f" in word):
            yield None
        elif word.startswith("--e") and "--expression".startswith(name):
            given = True
            yield value if equals else next(rest, "")
        elif word[:1] == "-" and word[1:2] != "-" and "e" in word:
            given = True
            yield word.partition("e")[2] or next(rest, "")
        elif not word.startswith("-") and first is None:
            first = word
    if not given and first is not None:
        yield first


def _only_prints(script: str) -> bool:
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
