"""`${x%pattern}` and `${x#pattern}` of values that are known, or known to lie in a directory."""

from __future__ import annotations

import re
from fnmatch import translate

from bridle.core.permission.shell.parsed_script import ANY, HOLE, ONE, is_open
from bridle.core.permission.shell.syntax import Literal, Word

_SIGN = re.compile(f"[{HOLE}{ANY}{ONE}]")


def trimmed(value: str, operator: str, word: Word | None) -> str:
    """The value without what the pattern matches at its end or beginning; HOLE if that is open."""
    pattern = _pattern(word)
    if pattern is None or HOLE in value:
        return HOLE
    if not is_open(value):
        return _exact(value, operator, pattern)
    text = "".join(c for c, _ in pattern)
    stars = [not quoted and c in "*?[" for c, quoted in pattern]
    if operator.startswith("%"):
        return _without_end(value, operator, text, stars)
    if operator == "##" and text == "*/" and stars == [True, False]:
        return value.rpartition("/")[2]
    return HOLE


def _pattern(word: Word | None) -> list[tuple[str, bool]] | None:
    found: list[tuple[str, bool]] = []
    for part in word.parts if word else ():
        if not isinstance(part, Literal) or is_open(part.text):
            return None
        found += [(c, part.quoted) for c in part.text]
    return found


def _exact(value: str, operator: str, pattern: list[tuple[str, bool]]) -> str:
    glob = "".join(f"[{c}]" if quoted and c in "*?[" else c for c, quoted in pattern)
    if "\\" in glob or "[^" in glob or "[:" in glob or len(value) > 1_000 or glob.count("*") > 3:
        return HOLE
    regex = re.compile(translate(glob))
    cuts = range(len(value), -1, -1) if operator.startswith("%") else range(len(value) + 1)
    if len(operator) == 2:
        cuts = cuts[::-1]
    for cut in cuts:
        head, tail = value[:cut], value[cut:]
        if operator.startswith("%"):
            if regex.fullmatch(tail):
                return head
        elif regex.fullmatch(head):
            return tail
    return value


def _without_end(value: str, operator: str, text: str, stars: list[bool]) -> str:
    last = max(value.rfind(sign) for sign in (ANY, ONE))
    tail = value[last + 1 :]
    if text == "/*" and stars == [False, True]:
        if operator == "%%":
            return value.partition("/")[0] if "/" in value else value
        return value.rpartition("/")[0] if "/" in value else value
    if text == ".*" and stars == [False, True] and operator == "%" and "/" not in tail:
        return value[: value.rfind(".")] if "." in tail else value[:last] + ANY
    if any(stars) or "/" in text:
        return HOLE
    if tail.endswith(text):
        return value[: len(value) - len(text)]
    if text.endswith(tail) and value[last - 1 : last] not in ("", "/"):
        return value[:last] + ANY
    return value if not text.endswith(tail) else HOLE if value[last] == ONE else value[:last] + ANY
