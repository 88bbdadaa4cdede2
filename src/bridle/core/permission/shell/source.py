"""The text of a command line, taken apart word by word as bash and sh do."""

from __future__ import annotations

import re
from collections.abc import Callable

from bridle.core.permission.shell.numbers import Numbers
from bridle.core.permission.shell.script import HOLE
from bridle.core.permission.shell.words import Word, ansi

BLANK = " \t"
_END_OF_WORD = frozenset(" \t\n;&|<>()")
_NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
_SPECIAL = frozenset("@*#?-$!0123456789")
_DEEPEST = 24
_IFS = ("$IFS", "${IFS}")  # blanks, unless somebody changed it

_UNSURE = re.compile(r"['\"\\`]|\bcase\b")  # may hide a parenthesis
_COMMANDS = re.compile(r"[;\n]")


class Doubtful(Exception):
    """The text cannot be read on; the message says why."""


class Source:
    """`inside` reads the commands from here up to a sign, `apart` those of another text."""

    def __init__(
        self,
        text: str,
        inside: Callable[[str], None],
        apart: Callable[[str], None],
        doubt: Callable[[str], None],
        numbers: Numbers,
    ) -> None:
        self.text = text
        self.at = 0
        self._inside = inside
        self._apart = apart
        self._doubt = doubt
        self._numbers = numbers
        self._counting = 0  # expressions inside of each other

    def peek(self, length: int = 1) -> str:
        return self.text[self.at : self.at + length]

    def sees(self, *signs: str) -> str:
        """The first of them that stands here."""
        if not self.text.startswith(signs, self.at):
            return ""
        return next((sign for sign in signs if self.text.startswith(sign, self.at)), "")

    def take(self, *signs: str) -> str:
        sign = self.sees(*signs)
        self.at += len(sign)
        return sign

    def blanks(self) -> None:
        """And comments, and lines that go on in the next."""
        in_a_word = False  # for the shell, that looks for comments before it expands
        while (c := self.peek()) and c in " \t\\$#":
            if c in BLANK:
                self.at += 1
                in_a_word = False
            elif c == "\\" and self.sees("\\\n"):
                self.at += 2
            elif c == "$" and (ifs := self.sees(*_IFS)) and self._ends_name(len(ifs)):
                self.at += len(ifs)
                in_a_word = True
            elif c == "#" and not in_a_word:
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            else:
                return

    def line(self) -> str | None:
        """The rest of this line, for a here-document; None at the end of the text."""
        if self.at >= len(self.text):
            return None
        end = self.text.find("\n", self.at)
        line = self.text[self.at :] if end < 0 else self.text[self.at : end]
        self.at = len(self.text) if end < 0 else end + 1
        return line

    # -- words -----------------------------------------------------------------------------------

    def word(self) -> Word | None:
        """None where a sign of the language stands."""
        text: list[str] = []
        mask: list[str] = []

        def add(piece: str, sort: str) -> None:
            text.append(piece)
            mask.append(sort * len(piece))

        begun = False
        while c := self.peek():
            if c == "\\":
                self.at += 2
                escaped = self.text[self.at - 1 : self.at]
                if escaped == "\n":
                    continue
                add(escaped or "\\", "q")
            elif c == "'":
                add(self._until("'"), "q")
            elif c == '"':
                self.at += 1
                self._quoted(add)
            elif c == "$":
                if (ifs := self.sees(*_IFS)) and self._ends_name(len(ifs)):
                    break
                self._dollar(add, "u")
            elif c == "`":
                add(self._backticks(quoted=False), "u")
            elif c in "<>" and self.sees("<(", ">("):
                self.at += 2
                self._inside(")")
                add(HOLE, "u")
            elif c in _END_OF_WORD:
                break
            else:
                end = self.at + 1
                while end < len(self.text) and self.text[end] not in "\\'\"$` \t\n;&|<>()":
                    end += 1
                add(self.text[self.at : end], "u")
                self.at = end
            begun = True
        return Word("".join(text), "".join(mask)) if begun else None

    def _ends_name(self, length: int) -> bool:
        return self.text[self.at : self.at + length].endswith("}") or (
            self.text[self.at + length : self.at + length + 1] not in _NAME
        )

    def _until(self, sign: str) -> str:
        """The literal text between here and the next such sign."""
        end = self.text.find(sign, self.at + 1)
        if end < 0:
            self.at = len(self.text)
            raise Doubtful(f"a {sign} that is not closed")
        inside = self.text[self.at + 1 : end]
        self.at = end + 1
        return inside

    def _quoted(self, add: Callable[[str, str], None]) -> None:
        """Up to the closing `\"`."""
        add("", "q")
        while c := self.peek():
            if c == '"':
                self.at += 1
                return
            if c == "\\":
                escaped = self.text[self.at + 1 : self.at + 2]
                self.at += 2
                if escaped != "\n":
                    add(escaped if escaped in '$`"\\' else "\\" + escaped, "q")
            elif c == "$":
                self._dollar(add, "q")
            elif c == "`":
                add(self._backticks(quoted=True), "q")
            else:
                end = self.at + 1
                while end < len(self.text) and self.text[end] not in '\\"$`':
                    end += 1
                add(self.text[self.at : end], "q")
                self.at = end
        raise Doubtful('a " that is not closed')

    # -- what begins with $, and backticks -------------------------------------------------------

    def _dollar(self, add: Callable[[str, str], None], sort: str) -> None:
        self.at += 1
        if sort == "u" and self.peek() == "'":
            add(self._ansi(), "q")
        elif sort == "u" and self.peek() == '"':
            self.at += 1
            self._quoted(add)
        elif self.sees("(("):
            self.arithmetic()
            add(HOLE, sort)
        elif self.take("("):
            self._inside(")")
            add(HOLE, sort)
        elif self.take("["):  # an old way to write arithmetic
            start = self.at
            self._expansions("]")
            self._numbers.count(self.text[start : self.at - 1])
            add(HOLE, sort)
        elif self.take("{"):
            start = self.at
            self._expansions("}")
            self._numbers.expand(self.text[start : self.at - 1])
            add(HOLE, sort)
        elif (c := self.peek()) and c in _SPECIAL:
            self.at += 1
            add(HOLE, sort)
        elif c and c in _NAME:
            while self.peek() and self.peek() in _NAME:
                self.at += 1
            add(HOLE, sort)
        else:
            add("$", "q")

    def _ansi(self) -> str:
        end = self.at + 1
        while end < len(self.text) and self.text[end] != "'":
            end += 2 if self.text[end] == "\\" else 1
        if end >= len(self.text):
            self.at = len(self.text)
            raise Doubtful("a $' that is not closed")
        inside = self.text[self.at + 1 : end]
        self.at = end + 1
        decoded = ansi(inside)
        if HOLE in decoded or "\0" in decoded:
            self._doubt("a character that no shell writes")
        return decoded.partition("\0")[0]

    def arithmetic(self, *, loop: bool = False) -> None:
        """From `((`; it may be commands in two parentheses after all."""
        start = self.at
        if self._counting > _DEEPEST:
            raise Doubtful("too many things inside of each other")
        counts, end = _is_arithmetic(self.text, start)
        if _UNSURE.search(self.text, start, end) or (
            counts and not loop and _COMMANDS.search(self.text, start, end)
        ):
            self._doubt("parentheses that may hold numbers or commands")
        if counts:
            self.at += 2
            self._counting += 1
            self._expansions("))")
            self._counting -= 1
            self._numbers.count(self.text[start + 2 : self.at - 2])
        else:
            self.at = start + 1
            self._inside(")")

    def _expansions(self, end: str) -> None:
        """Up to a sign, where nothing counts but further expansions and quotes."""
        depth = 0
        while self.at < len(self.text):
            c = self.peek()
            if depth == 0 and self.take(end):
                return
            if c == "\\":
                self.at += 2
            elif c == "'":  # a quote in one place, a plain character in another
                self._doubt("a quote inside of an expansion")
                self.at += 1
            elif c == '"':
                self.at += 1
                self._quoted(_nothing)
            elif c == "$":
                self._dollar(_nothing, "q")
            elif c == "`":
                self._backticks(quoted=True)
            elif self.sees("<(", ">(") and end == "}":
                self.at += 2
                self._inside(")")
            else:
                depth += {"(": 1, ")": -1}.get(c, 0) if end == "))" else 0
                self.at += 1
        raise Doubtful(f"a {end} is missing")

    def expansions_of(self, text: str) -> None:
        """Those of a here-document."""
        inner = Source(text, self._inside, self._apart, self._doubt, self._numbers)
        inner._inside = self._elsewhere(inner)
        while inner.at < len(text):
            c = inner.peek()
            if c == "\\":
                inner.at += 2
            elif c == "$":
                inner._dollar(_nothing, "q")
            elif c == "`":
                inner._backticks(quoted=False)
            else:
                inner.at += 1

    def _elsewhere(self, inner: Source) -> Callable[[str], None]:
        """Reads commands that stand in another text than this one."""

        def inside(until: str) -> None:
            text, at = self.text, self.at
            self.text, self.at = inner.text, inner.at
            try:
                self._inside(until)
                inner.at = self.at
            finally:
                self.text, self.at = text, at

        return inside

    def _backticks(self, *, quoted: bool) -> str:
        start = self.at = self.at + 1
        while self.at < len(self.text) and self.peek() != "`":
            self.at += 2 if self.peek() == "\\" else 1
        if self.at >= len(self.text):
            raise Doubtful("a ` that is not closed")
        inside = self.text[start : self.at]
        self.at += 1
        for sign in '$`"' if quoted else "$`":
            inside = inside.replace(f"\\{sign}", sign)
        self._apart(inside.replace("\\\\", "\\"))
        return HOLE


def _is_arithmetic(text: str, start: int) -> tuple[bool, int]:
    """From `((`: whether its own `))` closes it, as bash decides, and where that shows."""
    depth = 0
    for at in range(start + 2, len(text)):
        if text[at] == "(":
            depth += 1
        elif text[at] == ")" and depth:
            depth -= 1
        elif text[at] == ")":
            return text[at + 1 : at + 2] == ")", at
    return False, len(text)


def _nothing(text: str, sort: str) -> None:
    """What the expansion stands in does not matter."""
