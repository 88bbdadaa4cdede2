"""State of the shell at one point of a line: all possibilities at once."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from typing import Self

from tillerman.core.permission.shell.parsed_script import HOLE, Directory, is_open
from tillerman.core.permission.shell.parsing.syntax import FunctionDefinition
from tillerman.core.permission.shell.programs.invocation import StdinSource

Value = str | tuple[str, ...]  # of a variable; a tuple for an array
Functions = dict[str, tuple[tuple[FunctionDefinition, ...], bool]]  # bodies; if surely defined
Directories = tuple[Directory, ...]

MOST_DIRECTORIES = 12
POSIX_VARIABLES = frozenset({"POSIXLY_CORRECT", "POSIX_PEDANTIC"})  # they turn on its mode
_LONGEST = 2_000
NO_STDIN = StdinSource()
UNKNOWN_ARGUMENTS = (HOLE, HOLE)  # any number: adjacent text belongs to a single one


class ShellState:
    """Immutable once shared: `changed` makes a copy."""

    __slots__ = (
        "aliases",
        "directories",
        "doubts",
        "environment",
        "exported",
        "functions",
        "options",
        "positional",
        "previous",
        "stack",
        "start",
        "stdin",
        "variables",
    )

    directories: Directories
    variables: dict[str, Value]  # assigned by the line; HOLE where the value is unknown
    exported: frozenset[str]
    functions: Functions
    aliases: dict[str, str]
    options: frozenset[str]  # that may be on
    positional: tuple[str, ...] | None  # arguments; None: the initial ones
    stdin: StdinSource
    previous: Directories | None  # the target of `cd -`
    stack: tuple[Directories, ...] | None  # of pushd
    doubts: tuple[str, ...]  # of every program that runs from here on
    environment: tuple[str, ...]  # assignments that affect programs, as rules match them
    start: str  # absolute path of the line's working directory; "" if unknown

    def __init__(self, start: str = "") -> None:
        self.start = start
        self.directories = ("",)
        self.variables = {}
        self.exported = frozenset()
        self.functions = {}
        self.aliases = {}
        self.options = frozenset()
        self.positional = None
        self.stdin = NO_STDIN
        self.previous = None
        self.stack = ()
        self.doubts = ()
        self.environment = ()

    def changed(self, **fields: object) -> Self:
        copy = type(self).__new__(type(self))
        for name in ShellState.__slots__:
            setattr(copy, name, fields[name] if name in fields else getattr(self, name))
        return copy

    def assigned(self, name: str, value: Value) -> Self:
        return self.changed(variables={**self.variables, name: value})

    def doubted(self, *doubts: str) -> Self:
        return self.changed(doubts=tuple(dict.fromkeys((*self.doubts, *doubts))))

    def moved(self, directories: Iterable[Directory]) -> Self:
        found = limited(directories)
        return self.changed(directories=found, previous=self.directories)

    @property
    def may_be_posix(self) -> bool:
        """Whether bash may read commands in its POSIX mode."""
        return "posix" in self.options or not POSIX_VARIABLES.isdisjoint(self.variables)

    def path_of(self, directories: Directories | None) -> str | None:
        """The absolute path of a directory, if only one is possible and its path is known."""
        if not self.start or directories is None or len(directories) != 1:
            return None
        (only,) = directories
        if only is None or only.startswith("~") or (entered := _entered(only)) is None:
            return None
        return posixpath.join(self.start, entered) if entered else self.start

    def lost(self) -> Self:
        """The state after something that may have changed any part of the shell."""
        return self.changed(
            directories=(None,),
            previous=None,
            stack=None,
            variables=dict.fromkeys(self.variables, HOLE),
            positional=UNKNOWN_ARGUMENTS,
        )

    def widened(self, other: ShellState) -> Self:
        """The state with everything unknown that differs between two iterations of a loop."""
        variables = {
            name: value if other.variables.get(name) == value else HOLE
            for name, value in (other.variables | self.variables).items()
        }
        same = self.directories == other.directories
        return self.changed(
            variables=variables,
            directories=self.directories if same else (None,),
            previous=self.previous if same else None,
            stack=self.stack if self.stack == other.stack else None,
            positional=_same_arguments(self, other),
        )

    def key(self) -> tuple[object, ...]:
        """States with the same key are equal."""
        return tuple(getattr(self, name) for name in ShellState.__slots__)


def join(one: ShellState | None, other: ShellState | None) -> ShellState | None:
    """The state that covers both; None is a state that is never reached."""
    if one is None or other is None or one is other:
        return one or other
    if one.variables is other.variables or one.variables == other.variables:
        variables = one.variables
    else:
        variables = {
            name: value if other.variables.get(name) == one.variables.get(name) == value else HOLE
            for name, value in (other.variables | one.variables).items()
        }
    return one.changed(
        directories=limited((*one.directories, *other.directories)),
        variables=variables,
        exported=one.exported | other.exported,
        functions=_functions(one.functions, other.functions),
        aliases=one.aliases | other.aliases,
        options=one.options | other.options,
        positional=_same_arguments(one, other),
        stdin=one.stdin if one.stdin == other.stdin else NO_STDIN,
        previous=_either(one.previous, other.previous),
        stack=one.stack if one.stack == other.stack else None,
        doubts=tuple(dict.fromkeys((*one.doubts, *other.doubts))),
        environment=tuple(dict.fromkeys((*one.environment, *other.environment))),
    )


def _same_arguments(one: ShellState, other: ShellState) -> tuple[str, ...] | None:
    return one.positional if one.positional == other.positional else UNKNOWN_ARGUMENTS


def limited(directories: Iterable[Directory]) -> Directories:
    found = tuple(dict.fromkeys(directories))
    return found if len(found) <= MOST_DIRECTORIES else (None,)


def below(base: Directory, path: str) -> Directory:
    """The directory that `path` refers to from `base`."""
    if is_open(path):
        return None
    if path.startswith(("/", "~")):
        return path
    if base is None or len(base) + len(path) > _LONGEST:
        return None
    return posixpath.join(base, path)


def _functions(one: Functions, other: Functions) -> Functions:
    if one is other or one == other:
        return one
    found: Functions = {}
    for name in one | other:
        bodies, defined = one.get(name, ((), False))
        more, too = other.get(name, ((), False))
        found[name] = (tuple(dict.fromkeys((*bodies, *more))), defined and too)
    return found


def _either(one: Directories | None, other: Directories | None) -> Directories | None:
    return limited((*one, *other)) if one is not None and other is not None else None


def _entered(path: str) -> str | None:
    """The directory in which a shell arrives: it takes `..` off the name before, a link or not.

    None: it is not known. With a name behind that, bash follows the links if nothing is there.
    """
    parts = [part for part in path.split("/") if part not in ("", ".")]
    depth = 0
    for at, part in enumerate(parts):
        if part == ".." and depth:
            if set(parts[at:]) != {".."}:
                return None
            plain = posixpath.normpath(path)
            return "" if plain == "." else plain
        depth += part != ".."
    return path
