"""The words of the shell's language that stand around commands: loops, conditions, functions."""

from __future__ import annotations

from collections.abc import Callable

from bridle.core.permission.shell.numbers import Numbers
from bridle.core.permission.shell.old_programs import is_code
from bridle.core.permission.shell.script import HOLE
from bridle.core.permission.shell.source import Doubtful, Source
from bridle.core.permission.shell.variables import steers

_AGAIN = frozenset({
    "if", "then", "elif", "else", "fi", "while", "until", "do", "done", "{", "}", "!", "always",
})  # fmt: skip
_COMPOUND = ("(", "{ ", "{\n", "if ", "for ", "while ", "until ", "case ", "[[")
_COMPARES = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})


class Language:
    def __init__(
        self,
        source: Source,
        doubt: Callable[[str], None],
        line_ends: Callable[[], None],
        numbers: Numbers,
    ) -> None:
        self.cases = 0  # that are open
        self.loops = 0  # likewise
        self.later = False  # some of it runs where it is called, not where it stands
        self._source = source
        self._doubt = doubt
        self._line_ends = line_ends
        self._numbers = numbers

    def knows(self, word: str) -> bool:
        """Whether this is a word of the language, after which a command may begin."""
        source = self._source
        match word:
            case "for" | "select":
                self.loops += 1
                self._loop(word)
            case "case":
                source.blanks()
                source.word()
                self.skip_lines()
                named = source.word()
                if named is None or named.text != "in":
                    raise Doubtful("a case without in")
                self.cases += 1
                self.pattern()
            case "esac":
                self.cases = max(0, self.cases - 1)
            case "function":
                self._numbers.define()
                self.later = True
                source.blanks()
                source.word()
                source.blanks()
                if source.take("("):
                    source.blanks()
                    source.take(")")
            case "coproc":
                self._coprocess()
            case "time":
                source.blanks()
                return source.peek() != "-"
            case "[[":
                self._condition()
            case "while" | "until":
                self.loops += 1
            case "done":
                self.loops = max(0, self.loops - 1)
            case _:
                return word in _AGAIN
        return True

    def _loop(self, kind: str) -> None:
        source = self._source
        source.blanks()
        if source.sees("(("):
            source.arithmetic(loop=True)
            return
        name = source.word()
        if name is None or steers(name.text):
            self._doubt("a loop that changes what programs are or do")
        if name and kind == "select":
            self._numbers.assign(name.text, HOLE)
        self.skip_lines()
        start = source.at
        word = source.word()
        if word is None or not word.plain or word.text != "in":
            source.at = start
            if name:
                self._numbers.assign(name.text, HOLE)
            return
        while True:
            source.blanks()
            if (word := source.word()) is None:
                return
            if is_code(word.text):
                self._doubt("a loop over a text that something may run")
            if name:
                self._numbers.assign(name.text, word.text)

    def pattern(self) -> None:
        """Of a case, up to its parenthesis; or the end of the case."""
        source = self._source
        if not self.cases:
            raise Doubtful("a ;; outside of a case")
        self.skip_lines()
        if not source.peek():
            raise Doubtful("a case without esac")
        start = source.at
        word = source.word()
        if word and word.plain and word.text == "esac":
            source.at = start
            return
        source.at = start
        source.take("(")
        while True:
            source.blanks()
            if source.take(")"):
                return
            if source.word() is None and not source.take("|"):
                raise Doubtful("a case that cannot be read")

    def _coprocess(self) -> None:
        """A name may stand before what is more than a simple command."""
        source = self._source
        source.blanks()
        start = source.at
        source.word()
        source.blanks()
        if not source.sees(*_COMPOUND):
            source.at = start

    def _condition(self) -> None:
        source = self._source
        told: list[str] = []
        while True:
            source.blanks()
            word = source.word()
            if word and word.text == "]]":
                for before, sign, after in zip(["", *told], told, [*told[1:], ""], strict=False):
                    if sign in _COMPARES:
                        self._numbers.count(f"{before} {after}")
                    elif sign == "-v":
                        self._numbers.count(after)
                return
            told.append(word.text if word else "")
            if word and is_code(word.text):
                self._doubt("a condition that would run a text")
            if word is None:
                if sign := source.take("&&", "||", "<", ">", "(", ")", "\n", "|", ";", "&"):
                    if sign == "\n":
                        self._line_ends()
                    self._doubt("a condition that sh reads as commands")
                else:
                    raise Doubtful("a ]] is missing")

    def skip_lines(self) -> None:
        self._source.blanks()
        while sign := self._source.take("\n", ";"):
            if sign == "\n":
                self._line_ends()
            self._source.blanks()
