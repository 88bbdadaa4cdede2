"""Arithmetic of a line: a name in it runs what its value says, unless that is a number."""

from __future__ import annotations

import re

from tillerman.core.permission.shell.parsed_script import HOLE

_NUMBER = re.compile(r"\s*[-+]?\d[\dA-Fa-fxX#]*\s*|")
_NAME = re.compile(r"[A-Za-z_]\w*")
_ARGUMENT = re.compile(r"\$\{?[\d@*]")
ARGUMENTS = "@"  # of a function or the shell, as a name
# Of bash: whatever is assigned to them is evaluated.
_INTEGERS = frozenset({
    "BASHPID", "BASH_MONOSECONDS", "BASH_SUBSHELL", "EPOCHREALTIME", "EPOCHSECONDS", "EUID",
    "FUNCNEST", "HISTCMD", "LINENO", "OPTERR", "OPTIND", "PPID", "RANDOM", "SECONDS", "SRANDOM",
    "UID",
})  # fmt: skip


class ArithmeticNames:
    """Names that are counted with, and names whose value may be no number, in any order."""

    def __init__(self) -> None:
        self._counted: set[str] = set(_INTEGERS)
        self._texts: set[str] = set()
        self._codes: set[str] = set()  # whose value the line itself writes as code
        self._computed = False
        self._made_up = False

    def count(self, text: str, *, computed: bool = False, made_up: bool = False) -> None:
        """This stands where numbers do. `computed`: a program prints some of it."""
        self._counted.update(_NAME.findall(text))
        if _ARGUMENT.search(text):
            self._counted.add(ARGUMENTS)
        self._computed |= computed
        self._made_up |= made_up

    def assign(self, name: str, value: str, *, made_up: bool = False) -> None:
        """`made_up`: the line itself computes it, from whatever texts."""
        if is_code(value) or made_up:
            self._codes.add(name)
        elif not _NUMBER.fullmatch(value):
            self._texts.add(name)
            self._texts.update(self._texts & set(_NAME.findall(value)))

    def store(self, text: str) -> None:
        """A key or an element of an array: whoever lists those gets code, where one is code."""
        if is_code(text):
            self._codes.add("an array")

    def unread(self) -> list[str]:
        """Code of the line that arithmetic may run."""
        found = sorted(self._counted & self._codes)
        if not found and self._codes and self._counted & self._texts:
            found = sorted(self._codes)
        reasons = [f"{name} is counted with, and may hold commands" for name in found]
        return [*reasons, *(["a number that the line makes up"] if self._made_up else [])]

    def doubts(self) -> list[str]:
        """Values that only the running shell knows."""
        found = [f"{name} is counted with, and may be a text" for name in sorted(
            self._counted & self._texts)]  # fmt: skip
        if self._computed:
            found.append("a number that a command prints")
        return found


def is_code(text: str) -> bool:
    """Quoted, a substitution is a text, until something takes that text for arithmetic."""
    return "$(" in text or "`" in text or "${" in text


def is_number(text: str) -> bool:
    return HOLE not in text and _NUMBER.fullmatch(text) is not None
