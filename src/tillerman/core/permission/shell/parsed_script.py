"""What a command line does, as far as it can be read: its commands, the files they access, doubts.

Texts hold three signs for what only the running shell knows: any text at all, and what an
unquoted `*` or `?` stands for in the name of a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct

HOLE = "\ue000"  # a value known only at run time: of a variable, or what a command prints
ANY = "\ue001"  # an unquoted `*`
ONE = "\ue002"  # an unquoted `?`, or `[…]`
SIGNS = frozenset({HOLE, ANY, ONE})
WRITTEN = str.maketrans({ANY: "*", ONE: "?"})  # what the shell expands, as people wrote it
_SHOWN = {**WRITTEN, ord(HOLE): "…"}
_WIDE = re.compile(r"[\s']")
_SIGN = re.compile(f"[{HOLE}{ANY}{ONE}]")

Directory = str | None  # "" is where the line starts, None is unknown
Effect = Literal["none", "reads", "writes", "runs"]


class FileAccess(Struct, frozen=True):
    """One file, or tree of files, that a command or a redirection reads or changes."""

    path: str
    kind: Literal["read", "write", "remove", "mention"]
    # remove: deleted or moved away. mention: a word that may be a file, of a program that is not
    # known or in a place that cannot be classified: counts as read for rules that deny paths, and
    # as a possible write of protected names
    recursive: bool = False  # the path and all below it
    only: tuple[str, ...] = ()  # recursive: only files whose name matches one of these globs
    skips_hidden: bool = False  # recursive: hidden files are left out (rg, fd)
    tracked: bool = False  # recursive: only what git tracks (git grep, git archive)
    follows_links: bool = False  # recursive: and what links in it lead to (grep -R, zip -r)
    names_only: bool = False  # recursive: it lists names and opens no file (fd, du)
    possible: bool = False  # recursive: some of it, and the line does not say which (tar x)
    directories: tuple[Directory, ...] = ("",)  # what a relative path may start from


class ParsedCommand(Struct, frozen=True):
    """One simple command, after expansion, without its assignments and redirections."""

    words: tuple[str, ...]
    text: str  # what a rule that allows must match
    others: tuple[str, ...] = ()  # further readings, for rules that forbid
    passed: tuple[str, ...] = ()  # what it may run, if it is a program that runs its words
    effect: Effect = "runs"
    # none: prints, or changes only the shell's own state. reads: nothing but reading the listed
    # accesses. writes: nothing but reading and writing them. runs: anything else.
    row: str = ""  # the row of the program table that says so
    doubts: tuple[str, ...] = ()  # why it is not clear which command this is or what it runs
    accesses: tuple[FileAccess, ...] = ()
    hosts: tuple[str, ...] = ()
    directories: tuple[Directory, ...] = ("",)  # where it may run
    inner: bool = False  # run by another command that is judged as a whole (sudo)
    span: tuple[int, int] | None = None  # offsets in the raw line where it stands as it is


class ParsedScript(Struct, frozen=True):
    """All that a line does; `unread` says why it may run and write anything beside that."""

    commands: tuple[ParsedCommand, ...] = ()
    redirections: tuple[FileAccess, ...] = ()
    unread: tuple[str, ...] = ()


def shown(text: str) -> str:
    return text.translate(_SHOWN)


def is_open(text: str) -> bool:
    """Whether only the running shell knows what this is."""
    return _SIGN.search(text) is not None


def joined(words: Iterable[str]) -> str:
    """A word of several is quoted, so that it cannot pass for two."""
    return " ".join(_quoted(word) if not word or _is_wide(word) else word for word in words)


def unquoted(words: Sequence[str]) -> str:
    return " ".join(words)


def _is_wide(word: str) -> bool:
    return _WIDE.search(word) is not None


def _quoted(word: str) -> str:
    inside = word.replace("'", "'\\''")
    return f"'{inside}'"
