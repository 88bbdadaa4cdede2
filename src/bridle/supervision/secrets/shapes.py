r"""The shapes of well-known keys: they are secrets even when nobody registered them.

A shape is a row of units, each one character (`s`, `[pousr]`) or a bounded run of one alphabet
(`[A-Z0-9]{16,16}`). From the row come the pattern of the whole, and that of any beginning which
ends the text and may go on in the next piece. Runs are bounded so that no stream is held for ever.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, cached_property

_UNITS = re.compile(r"(?:\[[^\]]+\]|\\.|\(\?:\(\?![^)]+\)\[[^\]]+\]\)|.)(?:\{(\d+),(\d+)\})?")

# A word starts here: nothing before it, or the letter of a JSON escape such as `\n`.
_BEFORE = r"(?:(?<![A-Za-z0-9_-])|(?<=\\[nrt]))"
_DIGIT_AHEAD = "(?=[A-Za-z_.~+/=-]{0,200}[0-9])"
_KEY = "[A-Za-z0-9_-]"


@dataclass(frozen=True)
class Shape:
    name: str
    anchor: bytes  # every such key holds it; looked for first, so the rarer the better
    head: str
    run: str
    end: str = ""  # taken in where it follows
    digit: bool = False  # the run must hold one: the head is a word of prose or of style sheets

    @cached_property
    def pattern(self) -> re.Pattern[bytes]:
        digit = _DIGIT_AHEAD if self.digit else ""
        return re.compile(f"{_BEFORE}{self.head}{digit}{self.run}(?:{self.end})?".encode())

    @property
    def beginning(self) -> str:
        nested = ""
        for unit in reversed(list(_UNITS.finditer(self.head + self.run + self.end))):
            text = unit.group()
            if unit[1]:
                text = text.replace(f"{{{unit[1]},", "{0,")
            nested = f"{text}(?:{nested})?" if nested else text
        return nested


SHAPES = (
    Shape("api-key", b"sk-", "sk-", _KEY + "{20,512}", digit=True),
    Shape("github-token", b"gh", "gh[pousr]_", "[A-Za-z0-9]{36,255}"),
    Shape("github-token", b"github_pat_", "github_pat_", "[A-Za-z0-9_]{22,255}"),
    Shape("gitlab-token", b"glpat-", "glpat-", _KEY + "{20,255}"),
    Shape("aws-key-id", b"IA", "A[KS]IA", "[A-Z0-9]{16,16}"),
    Shape("google-key", b"AIza", "AIza", _KEY + "{35,35}"),
    Shape("slack-token", b"xox", "xox[abeoprs]-", "[A-Za-z0-9-]{10,255}"),
    Shape(
        "web-token",
        b"eyJ",
        "eyJ",
        rf"{_KEY}{{8,1024}}\.eyJ{_KEY}{{8,4096}}\.{_KEY}{{8,1024}}",
    ),
    Shape("bearer-token", b"earer ", "[Bb]earer ", "[A-Za-z0-9._~+/=-]{16,4096}", digit=True),
    Shape(
        "private-key",
        b"PRIVATE KEY",
        "-----BEGIN [A-Z0-9 ]{0,24}PRIVATE KEY",
        r"[A-Z ]{0,6}-----(?:(?!-----END )[A-Za-z0-9+/=\s\\:,.()-]){0,16384}",
        "-----END [A-Z0-9 ]{0,48}-----",
    ),
)

_LONGEST = 17_000


def beginning_of_shape(text: bytes, start: int) -> int:
    """Where a key may begin that the end of the text cuts; the length of the text if nowhere."""
    found = _beginnings().search(text, max(start, len(text) - _LONGEST))
    return found.start() if found else len(text)


@cache
def _beginnings() -> re.Pattern[bytes]:
    rows = "|".join(shape.beginning for shape in SHAPES)
    return re.compile(f"{_BEFORE}(?:{rows})\\Z".encode())
