"""Classifies the output of a substitution: a number, program output, or text of the line itself."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tillerman.core.permission.shell.parsing.syntax import (
    Arithmetic,
    CommandSubstitution,
    Literal,
    Parameter,
    Parts,
    Pipeline,
    Script,
    SimpleCommand,
    Word,
)

_NUMERIC = frozenset({"date", "wc", "nproc", "expr", "id"})  # in common use these print a number
_NUMBERS = frozenset({
    "#", "?", "$", "!", "BASHPID", "BASH_SUBSHELL", "EPOCHSECONDS", "EUID", "LINENO", "PPID",
    "RANDOM", "SECONDS", "SRANDOM", "UID",
})  # fmt: skip
_TEXT_PROGRAMS = frozenset({
    "echo", "printf", "eval", "cat", "sh", "bash", "dash", "zsh", "ksh", "tr", "sed", "awk",
    "base64", "rev", "xxd", "read", "command", "builtin", "exec", ".", "source", "python",
    "python3", "perl",
})  # fmt: skip
_ODD = re.compile(r"[\[$`\\]")


def is_numeric(script: Script) -> bool:
    """Whether its whole output is a number."""
    match script.commands:
        case (Pipeline(commands=(*_, last)),):
            return is_numeric(Script((last,), -1, -1))
        case (command,):
            words: Sequence[Word] = getattr(command, "words", ())
            return bool(words) and words[0].plain in _NUMERIC
    return False


def is_program_output(script: Script) -> bool:
    """Whether its output comes from programs, and not from text of the line."""
    for command in script.commands:
        parts = command.commands if isinstance(command, Pipeline) else (command,)
        for one in parts:
            if not isinstance(one, SimpleCommand) or not one.words or one.redirections:
                return False
            program = one.words[0].plain
            if program is None or program in _TEXT_PROGRAMS:
                return False
            literals = [p for word in one.words for p in word.parts]
            if not all(isinstance(p, Literal) and not _ODD.search(p.text) for p in literals):
                return False
    return bool(script.commands)


def computed_by(parts: Parts) -> dict[str, bool]:
    bodies = [one.body for one in parts if isinstance(one, CommandSubstitution)]
    found = [body for body in bodies if not is_numeric(body)]
    return {
        "computed": bool(found),
        "made_up": not all(map(is_program_output, found)),
    }


def is_sum(word: Word) -> bool:
    """Whether its value is a number, whatever its operands."""
    return bool(word.parts) and all(
        isinstance(part, Arithmetic)
        or (isinstance(part, CommandSubstitution) and is_numeric(part.body))
        or (isinstance(part, Parameter) and part.name in _NUMBERS and not part.operator)
        or (isinstance(part, Parameter) and part.operator == "length")
        for part in word.parts
    )
