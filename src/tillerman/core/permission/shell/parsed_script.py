"""Result of parsing a command line: its commands, the files they access, and doubts.

Texts contain three placeholder characters for what is known only at run time: any text, and what
an unquoted `*` or `?` matches in a file name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct

HOLE = "\ue000"  # a value known only at run time: of a variable, or printed by a command
ANY = "\ue001"  # an unquoted `*`
ONE = "\ue002"  # an unquoted `?`, or `[…]`
SIGNS = frozenset({HOLE, ANY, ONE})
WRITTEN = str.maketrans({ANY: "*", ONE: "?"})  # globs as the user wrote them
_SHOWN = {**WRITTEN, ord(HOLE): "…"}
_WIDE = re.compile(r"[\s']")
_SIGN = re.compile(f"[{HOLE}{ANY}{ONE}]")

Directory = str | None  # "" is where the line starts, None is unknown
Effect = Literal["none", "reads", "writes", "runs"]


class FileAccess(Struct, frozen=True):
    """A file, or tree of files, that a command or a redirection reads or changes."""

    path: str
    kind: Literal["read", "write", "remove", "mention"]
    # remove: deleted or moved away. mention: an argument that may be a file, of an unknown program
    # or in a position that cannot be classified: counts as read for rules that deny paths, and as
    # a possible write of protected names
    recursive: bool = False  # the path and everything below it
    only: tuple[str, ...] = ()  # recursive: only files whose name matches one of these globs
    skips_hidden: bool = False  # recursive: hidden files are excluded (rg, fd)
    tracked: bool = False  # recursive: only files that git tracks (git grep, git archive)
    untracked: bool = False  # recursive: only files that git neither tracks nor ignores (git add)
    follows_links: bool = False  # recursive: follows links in it (grep -R, zip -r)
    names_only: bool = False  # recursive: lists names without opening files (fd, du)
    possible: bool = False  # recursive: an unknown part of it (tar x)
    directories: tuple[Directory, ...] = ("",)  # possible bases of a relative path


class ParsedCommand(Struct, frozen=True):
    """One simple command, after expansion, without its assignments and redirections."""

    words: tuple[str, ...]
    text: str  # the text that a rule that allows must match
    others: tuple[str, ...] = ()  # alternative readings, for rules that deny
    passed: tuple[str, ...] = ()  # commands it may run, if it runs its arguments
    effect: Effect = "runs"
    # none: prints, or changes only the shell's state. reads: only reads the listed accesses.
    # writes: only reads and writes them. runs: anything else.
    row: str = ""  # the row of the program table that defines the effect
    doubts: tuple[str, ...] = ()  # why it is unclear which command this is or what it runs
    accesses: tuple[FileAccess, ...] = ()
    hosts: tuple[str, ...] = ()
    directories: tuple[Directory, ...] = ("",)  # where it may run
    folders: tuple[FileAccess, ...] = ()  # where it works; empty: in those directories only
    inner: bool = False  # run by another command that is decided as a whole (sudo)
    span: tuple[int, int] | None = None  # offsets in the raw line, if it is there verbatim

    @property
    def places(self) -> tuple[FileAccess, ...]:
        """The folders that it works in."""
        return self.folders or (FileAccess(".", "read", directories=self.directories),)

    @property
    def may_change_any(self) -> bool:
        """Whether it may change files there that the line does not name."""
        if self.effect == "writes" and not self.doubts:
            return not any(one.kind in ("write", "remove") for one in self.accesses)
        return self.effect == "runs" or bool(self.doubts)


class ParsedScript(Struct, frozen=True):
    """Everything that a line does; `unread`: reasons why it may run and write anything else."""

    commands: tuple[ParsedCommand, ...] = ()
    redirections: tuple[FileAccess, ...] = ()
    unread: tuple[str, ...] = ()


def shown(text: str) -> str:
    return text.translate(_SHOWN)


def is_open(text: str) -> bool:
    """Whether the text contains a placeholder for what is known only at run time."""
    return _SIGN.search(text) is not None


def joined(words: Iterable[str]) -> str:
    """Joins words; a word with blanks is quoted, so that it cannot be read as two."""
    return " ".join(_quoted(word) if not word or _is_wide(word) else word for word in words)


def unquoted(words: Sequence[str]) -> str:
    return " ".join(words)


def _is_wide(word: str) -> bool:
    return _WIDE.search(word) is not None


def _quoted(word: str) -> str:
    inside = word.replace("'", "'\\''")
    return f"'{inside}'"
