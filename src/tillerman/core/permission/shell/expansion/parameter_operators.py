"""Evaluates parameter expansions such as `${x%pattern}`, `${x/a/b}` and `${x:1:2}`.

Only for known values. Of a file that an unquoted glob matches only the directory is known, so only
operators that stay in that directory are evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import translate

from tillerman.core.permission.shell.parsed_script import ANY, HOLE, ONE, is_open
from tillerman.core.permission.shell.parsing.syntax import Literal, Word

_SIGN = re.compile(f"[{HOLE}{ANY}{ONE}]")
_NUMBER = r"(0|[1-9][0-9]{0,5})"
_RANGE = re.compile(rf"[ \t]*(-?){_NUMBER}(?:[ \t]*:[ \t]*{_NUMBER})?[ \t]*")
_PATTERN_SIGNS = frozenset("*?[]()|\\")
_SAME_IN_ALL_LOCALES = re.compile(r"[ -HJ-hj-~]*")  # some locales have other letters for I and i


def trimmed(value: str, operator: str, word: Word | None) -> str:
    """The value without the pattern's match at its end or beginning; HOLE if unknown."""
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


def replaced(value: str, operator: str, word: Word | None) -> str:
    """The value with the first or all matches of a plain text replaced; HOLE if unknown."""
    found = _pattern(word)
    if found is None or HOLE in value:
        return HOLE
    cut = next((at for at, one in enumerate(found) if one == ("/", False)), len(found))
    pattern, replacement = found[:cut], found[cut + 1 :]
    if any(not quoted and c in _PATTERN_SIGNS for c, quoted in pattern):
        return HOLE
    if pattern[:1] in ([("#", False)], [("%", False)]):
        return HOLE
    if any(c in "&\\" for c, _ in replacement) or replacement[:1] == [("~", False)]:
        return HOLE
    text, new = "".join(c for c, _ in pattern), "".join(c for c, _ in replacement)
    if not text:
        return HOLE if found else value  # a slash there may be the pattern
    if not is_open(value):
        return value.replace(text, new, 1 if operator == "/" else -1)
    return _replaced_in_name(value, text, new)


def _replaced_in_name(value: str, text: str, new: str) -> str:
    """Replaces in a name that is not hidden: the text begins with a dot, so the beginning stays."""
    folder, slash, name = value.rpartition("/")
    if is_open(folder) or text in folder + slash or not text.startswith(".") or "/" in text + new:
        return HOLE
    return folder + slash + (name[:1] if name[:1] not in (ANY, ONE, ".") else "") + ANY


def substring(value: str, word: Word | None) -> str:
    match = _range(word)
    if match is None or is_open(value) or not value.isascii():
        return HOLE
    start, end = _bounds(match, len(value))
    return value[start:end]


def elements(values: Sequence[str], word: Word | None, *, first: int) -> tuple[str, ...] | None:
    """`${a[@]:1:2}`: `first` is the index of the first element. None if unknown."""
    match = _range(word)
    if match is None or match[1] or any(map(is_open, values)) or int(match[2]) < first:
        return None
    start, end = _bounds(match, len(values) + first)
    return tuple(values[start - first : end - first])


def _range(word: Word | None) -> re.Match[str] | None:
    found = _pattern(word)
    return _RANGE.fullmatch("".join(c for c, _ in found)) if found is not None else None


def _bounds(match: re.Match[str], length: int) -> tuple[int, int]:
    start = length - int(match[2]) if match[1] else int(match[2])
    if start < 0:
        return 0, 0
    return start, start + int(match[3]) if match[3] else length


def in_other_case(value: str, operator: str, word: Word | None) -> str:
    if is_open(value) or (word and word.parts) or not _SAME_IN_ALL_LOCALES.fullmatch(value):
        return HOLE
    changed = value.upper() if operator[0] == "^" else value.lower()
    return changed if len(operator) == 2 else changed[:1] + value[1:]


def _pattern(word: Word | None) -> list[tuple[str, bool]] | None:
    found: list[tuple[str, bool]] = []
    for part in word.parts if word else ():
        if not isinstance(part, Literal) or is_open(part.text):
            return None
        found += [(c, part.quoted) for c in part.text]
    return found if found[:1] != [("~", False)] else None  # that is a home directory


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
