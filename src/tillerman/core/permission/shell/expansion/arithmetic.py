"""Detects code execution by shell arithmetic, which evaluates values that are not numbers."""

from __future__ import annotations

import re

from tillerman.core.permission.shell.parsed_script import HOLE

_NUMBER = re.compile(r"\s*[-+]?\d[\dA-Fa-fxX#]*\s*|")
_NAME = re.compile(r"[A-Za-z_]\w*")
_ARGUMENT = re.compile(r"\$\{?[\d@*]")
ARGUMENTS = "@"  # the arguments of a function or the shell, as a name
# Integer variables of bash: every value assigned to them is evaluated.
_INTEGERS = frozenset({
    "BASHPID", "BASH_MONOSECONDS", "BASH_SUBSHELL", "EPOCHREALTIME", "EPOCHSECONDS", "EUID",
    "FUNCNEST", "HISTCMD", "LINENO", "OPTERR", "OPTIND", "PPID", "RANDOM", "SECONDS", "SRANDOM",
    "UID",
})  # fmt: skip


class ArithmeticNames:
    """Names that arithmetic evaluates, and names whose value may not be a number, in any order."""

    def __init__(self) -> None:
        self._counted: set[str] = set(_INTEGERS)
        self._texts: set[str] = set()
        self._codes: set[str] = set()  # the line itself assigns code to them
        self._computed = False
        self._made_up = False

    def count(self, text: str, *, computed: bool = False, made_up: bool = False) -> None:
        """Records text in an arithmetic context. `computed`: a program prints part of it."""
        self._counted.update(_NAME.findall(text))
        if _ARGUMENT.search(text):
            self._counted.add(ARGUMENTS)
        self._computed |= computed
        self._made_up |= made_up

    def assign(self, name: str, value: str, *, made_up: bool = False) -> None:
        """Records an assignment; `made_up`: the line itself computes the value from any text."""
        if is_code(value) or made_up:
            self._codes.add(name)
        elif not _NUMBER.fullmatch(value):
            self._texts.add(name)
            self._texts.update(self._texts & set(_NAME.findall(value)))

    def store(self, text: str) -> None:
        """Records a key or an element of an array: listing the array may return code in it."""
        if is_code(text):
            self._codes.add("an array")

    def unread(self) -> list[str]:
        """Code of the line that arithmetic may run."""
        found = sorted(self._counted & self._codes)
        if not found and self._codes and self._counted & self._texts:
            found = sorted(self._codes)
        reasons = [f"{name} is used in arithmetic, and may contain commands" for name in found]
        return [*reasons, *(["a number that the line computes"] if self._made_up else [])]

    def doubts(self) -> list[str]:
        """Values that are known only at run time."""
        found = [f"{name} is used in arithmetic, and may be text" for name in sorted(
            self._counted & self._texts)]  # fmt: skip
        if self._computed:
            found.append("a number that a command prints")
        return found


def is_code(text: str) -> bool:
    """Whether text contains a substitution: text when quoted, code when arithmetic evaluates it."""
    return "$(" in text or "`" in text or "${" in text


def is_number(text: str) -> bool:
    return HOLE not in text and _NUMBER.fullmatch(text) is not None
