r"""Patterns of well-known API keys and tokens, which are redacted without registration.

A pattern is a sequence of units, each one character (`s`, `[pousr]`) or a bounded run of one
alphabet (`[A-Z0-9]{16,16}`). From it come the regex of the whole key, and that of any prefix at the
end of the text which may continue in the next piece. Runs are bounded so that no stream is held
back forever.

A key may follow any character: that of a colour (`\x1b[31m`), of `%3D`, of a word. At the start of
a word its head is redacted with it. Elsewhere the head stays, except for its last character, so
that a stream need not hold back every letter that a head begins with.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache, cached_property

_UNITS = re.compile(r"(?:\[[^\]]+\]|\\.|\(\?:\(\?![^)]+\)\[[^\]]+\]\)|.)(?:\{(\d+),(\d+)\})?")

_KEY = "[A-Za-z0-9_-]"
_DIGIT_IN_KEY = "(?=[A-Za-z_-]{0,200}[0-9])"
_DIGIT_IN_TOKEN = "(?=[A-Za-z_.~+/=-]{0,200}[0-9])"

# `task-…` and `disk-…` are ordinary names: after such letters a key must have digits and letters of
# both cases.
_SOLID = f"{_KEY}{{0,64}}?(?=[A-Za-z0-9]{{16}})(?=[A-Za-z]{{0,15}}[0-9])"
_BOTH_CASES = "(?=[a-z0-9]{0,15}[A-Z])(?=[A-Z0-9]{0,15}[a-z])"
_INSIDE_A_WORD = (
    f"(?:(?=ant-[a-z]{{2,8}}[0-9]{{2}}-)|(?={_SOLID}{_BOTH_CASES})"
    f"|(?<![AEIOULNRaeioulnr]sk-)(?={_SOLID}(?=[0-9]{{0,15}}[A-Za-z])))"
)


@dataclass(frozen=True)
class KeyPattern:
    name: str
    anchor: bytes  # contained in every such key
    head: str
    run: str
    end: str = ""  # included where it follows
    gate: bytes = b""  # a rare byte of the anchor: searching for a single byte is cheapest
    word: bool = True  # must not follow a letter, except that of a JSON escape such as `\n`
    ahead: str = ""  # required in the run: the head also occurs in prose or style sheets
    ahead_inside: str = ""  # the same for a key inside a word
    behind: str = ""  # the whole head, of which `head` is the last character

    @cached_property
    def pattern(self) -> re.Pattern[bytes]:
        # The head comes first, then the lookbehind: `re` is fast when a pattern starts with a
        # literal.
        word = _starts_a_word(self.head) if self.word else self._look_behind
        return re.compile(f"{self.head}{word}{self.ahead}{self.run}(?:{self.end})?".encode())

    @property
    def beginning(self) -> str:
        if self.behind:
            return f"{self.head}{self._look_behind}(?:{_beginning(self.run + self.end)})?"
        return _beginning(self.head + self.run + self.end)

    @property
    def inside_a_word(self) -> KeyPattern:
        ahead = self.ahead_inside or self.ahead
        return replace(self, head=self.head[-1], behind=self.head, word=False, ahead=ahead)

    @property
    def _look_behind(self) -> str:
        return f"(?<={self.behind})" if self.behind else ""


def _beginning(row: str) -> str:
    nested = ""
    for unit in reversed(list(_UNITS.finditer(row))):
        text = unit.group()
        if unit[1]:
            text = text.replace(f"{{{unit[1]},", "{0,")
        nested = f"{text}(?:{nested})?" if nested else text
    return nested


def _starts_a_word(head: str) -> str:
    """In JSON, `\\n` or `\\u001b` end with a letter that is not part of a word."""
    escapes = rf"(?<=\\[bfnrt]{head})|(?<=\\u[0-9a-fA-F]{{4}}{head})"
    return rf"(?:(?<![A-Za-z0-9_-]{head})|{escapes})"


_KEYS = (
    KeyPattern(
        *("api-key", b"sk-", "sk-", _KEY + "{20,512}"),
        ahead=_DIGIT_IN_KEY,
        ahead_inside=_INSIDE_A_WORD,
    ),
    KeyPattern("github-token", b"gh", "gh[pousr]_", "[A-Za-z0-9]{36,255}"),
    KeyPattern("github-token", b"github_pat_", "github_pat_", "[A-Za-z0-9_]{22,255}"),
    KeyPattern("aws-key-id", b"IA", "A[KS]IA", "[A-Z0-9]{16,16}", gate=b"I"),
    KeyPattern("google-key", b"AIza", "AIza", _KEY + "{35,35}", gate=b"I"),
    KeyPattern("slack-token", b"xox", "xox[abeoprs]-", "[A-Za-z0-9-]{10,255}"),
    KeyPattern(
        "web-token",
        b"eyJ",
        "eyJ",
        rf"{_KEY}{{8,1024}}\.eyJ{_KEY}{{8,4096}}\.{_KEY}{{8,1024}}",
        gate=b"J",
    ),
    KeyPattern(
        *("bearer-token", b"earer ", "[Bb]earer ", "[A-Za-z0-9._~+/=-]{16,4096}"),
        ahead=_DIGIT_IN_TOKEN,
    ),
    KeyPattern(
        "private-key",
        b"PRIVATE KEY",
        "-----BEGIN [A-Z0-9 ]{0,24}PRIVATE KEY",
        r"[A-Z ]{0,6}-----(?:(?!-----END )[A-Za-z0-9+/=\s\\:,.()-]){0,16384}",
        "-----END [A-Z0-9 ]{0,48}-----",
        gate=b"V",
        word=False,
    ),
)

SHAPES = (*_KEYS, *(shape.inside_a_word for shape in _KEYS if shape.word))
LONGEST_HEAD = 12  # bytes; the text before it affects the match
_UNGATED = tuple(shape for shape in SHAPES if not shape.gate)
_ANCHORS = tuple(dict.fromkeys(shape.anchor for shape in _UNGATED))  # several shapes share one
_GATED = {
    gate: [s for s in SHAPES if s.gate == gate] for gate in {s.gate for s in SHAPES if s.gate}
}
LONGEST_SHAPE = 17_000  # bytes


def shapes_in(text: bytes) -> list[KeyPattern]:
    """Returns the patterns that can match, by a cheap substring check."""
    present = [anchor for anchor in _ANCHORS if anchor in text]
    found = [shape for shape in _UNGATED if shape.anchor in present] if present else []
    for gate, shapes in _GATED.items():
        if gate in text:
            found += [shape for shape in shapes if shape.anchor in text]
    return found


def beginning_of_shape(text: bytes, start: int) -> int:
    """Returns where a key may start that the end of the text cuts off; else its length."""
    start = max(start, len(text) - LONGEST_SHAPE)
    found = (beginnings.search(text, start) for beginnings in _beginnings())
    return min((match.start() for match in found if match), default=len(text))


@cache
def _beginnings() -> list[re.Pattern[bytes]]:
    """Combines the patterns that start a word, since lookbehind is slow; others stay separate."""
    words = "|".join(shape.beginning for shape in SHAPES if shape.word)
    inside = "|".join(shape.beginning for shape in SHAPES if shape.behind)
    others = [shape.beginning for shape in SHAPES if not shape.word and not shape.behind]
    rows = [f"{_starts_a_word('')}(?:{words})", inside, *others]
    return [re.compile(f"(?:{row})\\Z".encode()) for row in rows]
