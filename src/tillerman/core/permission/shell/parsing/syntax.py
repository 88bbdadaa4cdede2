"""Shell syntax tree nodes. `start` and `end` are offsets in the parsed text."""

from __future__ import annotations

from typing import Literal as Choice

from msgspec import Struct

Dialect = Choice["bash", "posix"]


class UnparsableCommand(Exception):
    """The text is not a valid shell command, or is too large to parse."""


# -- words -----------------------------------------------------------------------------------------


class Literal(Struct, frozen=True):
    text: str
    quoted: bool = False


class Parameter(Struct, frozen=True):
    """`$name`, `${name}` and `${name OPERATOR word}`; `operator` is `bad` if it is unknown."""

    name: str
    operator: str = ""
    word: Word | None = None
    quoted: bool = False
    subscript: Word | None = None  # of an array
    indirect: bool = False  # ${!name}
    inner: str = ""  # the text between the braces


class CommandSubstitution(Struct, frozen=True):
    """A command substitution; `in_shell`: `${ …; }`, which runs in the shell itself."""

    body: Script
    quoted: bool = False
    in_shell: bool = False


class ProcessSubstitution(Struct, frozen=True):
    body: Script


class Arithmetic(Struct, frozen=True):
    """`$((…))`; `parts` are the expansions in it."""

    text: str
    parts: Parts
    quoted: bool = False


class ExtendedGlob(Struct, frozen=True):
    """`!(a|b)` and the like."""

    text: str
    parts: Parts


class Subscript(Struct, frozen=True):
    """`[…]` of `name[…]=value`, after the name."""

    word: Word


class ArrayValue(Struct, frozen=True):
    """`(a b)` of `name=(a b)`."""

    items: tuple[Word, ...]


Part = (
    Literal
    | Parameter
    | CommandSubstitution
    | ProcessSubstitution
    | Arithmetic
    | ExtendedGlob
    | Subscript
    | ArrayValue
)
Parts = tuple[Part, ...]


class Word(Struct, frozen=True):
    parts: Parts
    start: int = 0
    end: int = 0

    @property
    def plain(self) -> str | None:
        """The text of a word without quotes and expansions."""
        match self.parts:
            case (Literal(text, False),):
                return text
        return None


class Assignment(Struct, frozen=True):
    name: str
    value: Word
    append: bool = False
    subscript: Word | None = None


class HereDocument(Struct, eq=False):
    """A here-document; its body is known when the line that names it has been read completely."""

    delimiter: str
    literal: bool
    strips_tabs: bool
    body: Word | None = None


class Redirection(Struct, frozen=True):
    operator: str
    target: Word
    descriptor: str = ""  # a number, or a variable name in braces
    document: HereDocument | None = None


# -- commands --------------------------------------------------------------------------------------


class SimpleCommand(Struct, frozen=True):
    assignments: tuple[Assignment, ...]
    words: tuple[Word, ...]
    redirections: tuple[Redirection, ...]
    start: int
    end: int
    contiguous: bool  # no redirection between its words


class Redirected(Struct, frozen=True):
    """A compound command followed by redirections."""

    body: Node
    redirections: tuple[Redirection, ...]
    start: int
    end: int


class Pipeline(Struct, frozen=True):
    commands: tuple[Node, ...]
    negated: bool
    start: int
    end: int


class AndOr(Struct, frozen=True):
    """`left && right`, `left || right`."""

    left: Node
    operator: Choice["&&", "||"]
    right: Node
    start: int
    end: int


class Script(Struct, frozen=True):
    """A sequence of commands."""

    commands: tuple[Node, ...]
    start: int
    end: int


class BackgroundList(Struct, frozen=True):
    body: Node
    start: int
    end: int


class Subshell(Struct, frozen=True):
    body: Script
    start: int
    end: int


class Coprocess(Struct, frozen=True):
    name: str
    body: Node
    start: int
    end: int


class If(Struct, frozen=True):
    condition: Script
    then: Script
    otherwise: Script | None
    start: int
    end: int


class Loop(Struct, frozen=True):
    """`while` and `until`."""

    condition: Script
    body: Script
    until: bool
    start: int
    end: int


class For(Struct, frozen=True):
    """`for` and `select`; without `words`, over the arguments of the shell."""

    name: Word
    words: tuple[Word, ...] | None
    body: Script
    select: bool
    start: int
    end: int


class ArithmeticFor(Struct, frozen=True):
    header: Arithmetic
    body: Script
    start: int
    end: int


class CaseItem(Struct, frozen=True):
    patterns: tuple[Word, ...]
    body: Script
    terminator: str


class CaseClause(Struct, frozen=True):
    subject: Word
    items: tuple[CaseItem, ...]
    start: int
    end: int


class FunctionDefinition(Struct, frozen=True):
    name: str
    body: Node
    start: int
    end: int


class Condition(Struct, frozen=True):
    """`[[ … ]]`: its words and operators in order."""

    words: tuple[Word, ...]
    start: int
    end: int


class ArithmeticCommand(Struct, frozen=True):
    body: Arithmetic
    start: int
    end: int


Node = (
    SimpleCommand
    | Redirected
    | Pipeline
    | AndOr
    | Script
    | BackgroundList
    | Subshell
    | Coprocess
    | If
    | Loop
    | For
    | ArithmeticFor
    | CaseClause
    | FunctionDefinition
    | Condition
    | ArithmeticCommand
)
