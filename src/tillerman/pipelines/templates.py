"""Prompt templates: a text with `{{ name.of.a.value }}` in it, and nothing that can be executed.

`\\{{` is a literal `{{`. In prompts values are inserted as they are; in commands each is quoted, so
that it stays one word (a list: one word per entry) whatever it contains.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from msgspec import Struct

_PLACEHOLDER = re.compile(r"\\\{\{|\{\{(.*?)\}\}|\{\{", re.DOTALL)
_NAME = re.compile(r"[a-z][a-z0-9_-]*(?:\.[a-z][a-z0-9_-]*){0,2}")
_BLANK = " \t\n;&|()<>"  # what separates words of a shell
_HINT = "write `{{ inputs.NAME }}` or `{{ steps.ID.text }}`; `\\{{` is two braces in the text"

Value = str | Sequence[str]
Values = Mapping[str, Value]  # by name: "inputs.task", "steps.plan.text", "loop.output", "item"


class TemplateError(Exception):
    """`line` counts the lines of the text, from 0."""

    def __init__(self, line: int, problem: str, hint: str) -> None:
        super().__init__(problem)
        self.line = line
        self.problem = problem
        self.hint = hint


class Placeholder(Struct, frozen=True):
    name: str  # "steps.plan.text"
    line: int  # of the text, from 0

    @property
    def parts(self) -> list[str]:
        return self.name.split(".")


Piece = str | Placeholder


def parse(text: str) -> tuple[Piece, ...]:
    """Texts and placeholders in turn. Raises TemplateError."""
    pieces: list[Piece] = []
    at = 0
    for found in _PLACEHOLDER.finditer(text):
        pieces.append(text[at : found.start()])
        at = found.end()
        if found[0].startswith("\\"):
            pieces.append("{{")
            continue
        line = text.count("\n", 0, found.start())
        if found[1] is None:
            raise TemplateError(line, "`{{` without `}}`", _HINT)
        name = found[1].strip()
        if not _NAME.fullmatch(name):
            shown = name if len(name) <= 60 else f"{name[:60]}…"
            raise TemplateError(line, f"`{{{{ {shown} }}}}` is not a name", _HINT)
        pieces.append(Placeholder(name, line))
    pieces.append(text[at:])
    return tuple(_joined(pieces))


def _joined(pieces: Iterable[Piece]) -> Iterator[Piece]:
    for is_text, group in groupby(pieces, key=lambda piece: isinstance(piece, str)):
        if not is_text:
            yield from group
        elif text := "".join(str(piece) for piece in group):
            yield text


def names(text: str) -> list[str]:
    """The names that a text uses, each once, in order."""
    return list(dict.fromkeys(one.name for one in parse(text) if isinstance(one, Placeholder)))


def render(text: str, values: Values) -> str:
    """A prompt or message: values as they are, the entries of a list on lines of their own."""
    return "".join(_plain(piece, values) for piece in parse(text))


def render_command(text: str, values: Values) -> str:
    """A shell command: each value is quoted, for any POSIX shell.

    `shell_values.check` has made sure that each stands where a quoted word is one.
    """
    pieces = ("", *parse(text), "")
    around = zip(pieces, pieces[1:], pieces[2:], strict=False)
    return "".join(
        piece if isinstance(piece, str) else _quoted(values[piece.name], before, after)
        for before, piece, after in around
    )


def render_list(text: str, values: Values) -> tuple[str, ...]:
    """The entries of a `map`: those of a list, else the lines of the text that are not blank."""
    pieces = parse(text)
    if len(pieces) == 1 and isinstance(pieces[0], Placeholder):
        value = values[pieces[0].name]
        if not isinstance(value, str):
            return tuple(value)
    return tuple(line.strip() for line in render(text, values).splitlines() if line.strip())


def _plain(piece: Piece, values: Values) -> str:
    if isinstance(piece, str):
        return piece
    value = values[piece.name]
    return value if isinstance(value, str) else "\n".join(value)


def _quoted(value: Value, before: Piece, after: Piece) -> str:
    """The entries of a list are words of their own only where no other text touches them."""
    if not isinstance(value, str):
        if _ends_word(before, -1) and _ends_word(after, 0):
            return shlex.join(_clean(word) for word in value)
        value = "\n".join(value)
    return shlex.quote(_clean(value))


def _ends_word(piece: Piece, at: int) -> bool:
    return isinstance(piece, str) and (not piece or piece[at] in _BLANK)


def _clean(text: str) -> str:
    return text.replace("\0", "")  # no program takes it
