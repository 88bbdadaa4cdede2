"""Arithmetic of a line: a name in it runs what its value says, unless that is a number."""

from __future__ import annotations

import re
from collections.abc import Sequence

from bridle.core.permission.shell.script import HOLE

_NUMBER = re.compile(r"[-+]?\d[\dA-Fa-fxX]*|")
_SUM = re.compile(r"\"?\$\(\((?:[^$`'\"\\()]|\$\w)*\)\)\"?")  # is one, whatever it counts
_NAME = re.compile(r"[A-Za-z_]\w*")
_ARGUMENT = re.compile(r"\$\{?[\d@*]")
_COMMAND = re.compile(r"\$\((?!\()|`|\$\{!")
_PARAMETER = re.compile(r"(!?)([A-Za-z_]\w*|[\d@*#?$!-])(\[[^]]*\])?(.*)", re.DOTALL)
_PLAIN_SUBSCRIPT = re.compile(r"\[[@*]\]|\[-?\d+\]")
_PLAIN_PART = re.compile(r":\s*-?\d+(\s*:\s*-?\d+)?")
ARGUMENTS = "@"  # of a function or the shell, as a name
_SETS = frozenset({"read", "mapfile", "readarray", "getopts"})
_DECLARES = frozenset({"declare", "typeset", "local", "export", "readonly"})


class Numbers:
    """What is counted with, and what is given a value that may be no number, in any order."""

    def __init__(self) -> None:
        self._counted: set[str] = set()
        self._texts: set[str] = set()
        self._doubts: list[str] = []

    def doubts(self) -> list[str]:
        both = sorted(self._counted & self._texts)
        return [*self._doubts, *(f"{name} is counted with, and may be a text" for name in both)]

    def count(self, text: str) -> None:
        """This stands where numbers do."""
        if _COMMAND.search(text) or HOLE in text:
            self._doubts.append("a number that is made up as it runs")
        self._counted.update(_NAME.findall(text))
        if _ARGUMENT.search(text):
            self._counted.add(ARGUMENTS)

    def assign(self, name: str, value: str) -> None:
        """The value as it is written."""
        if not (_NUMBER.fullmatch(value) or _SUM.fullmatch(value)):
            self._texts.add(name)

    def expand(self, inside: str) -> None:
        """A parameter, between its braces."""
        match = _PARAMETER.fullmatch(inside)
        if match is None:
            return
        other, name, subscript, rest = match.groups()
        if rest.endswith("@P"):
            self._doubts.append("a value that is expanded once more")
        if other and not (rest in ("@", "*") or subscript in ("[@]", "[*]")):
            self._doubts.append("a name that is itself a value")
        if subscript and not _PLAIN_SUBSCRIPT.fullmatch(subscript):
            self.count(subscript)
        if rest[:1] == ":" and rest[1:2] not in ("-", "=", "+", "?"):
            if not _PLAIN_PART.fullmatch(rest):
                self.count(rest)
        elif rest.startswith((":=", "=")):
            self._texts.add(name)

    def run(self, words: Sequence[str]) -> None:
        """A command that may give values to names."""
        program, rest = words[0], words[1:]
        flags = "".join(word for word in rest if word.startswith("-"))
        if program == "printf" and "-v" in flags:
            self._doubts.append("printf gives a name a value")
        elif program in _SETS:
            self._texts.update(word for word in rest if not word.startswith("-"))
            self._texts.add("REPLY")
        elif program in _DECLARES:
            if "i" in flags or "n" in flags:
                self._doubts.append(f"{program} makes a name one that is evaluated")
            for word in rest:
                name, equals, value = word.partition("=")
                if equals:
                    self.assign(name.rstrip("+"), value)
        elif program == "let":
            self.count(" ".join(rest))
        elif program == "set":
            self._texts.add(ARGUMENTS)

    def define(self) -> None:
        """A function, whose arguments are whatever it is called with."""
        self._texts.add(ARGUMENTS)
