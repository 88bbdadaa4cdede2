"""What a command line comes to: its simple commands, what they redirect, and what is unclear.

A text of it holds three signs for what only the running shell knows: any text at all, and what
`*` and `?` stand for in the name of a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

HOLE = "\ue000"  # the value of a variable, or what a command prints
ANY = "\ue001"  # an unquoted `*`
ONE = "\ue002"  # an unquoted `?`, or `[…]`
SIGNS = frozenset({HOLE, ANY, ONE})
WRITTEN = str.maketrans({ANY: "*", ONE: "?"})  # what the shell expands, as people wrote it
_SHOWN = {**WRITTEN, ord(HOLE): "…"}
_WIDE = re.compile(r"[\s']")
_SIGN = re.compile(f"[{HOLE}{ANY}{ONE}]")

Folder = str | None  # that a path is relative to: "" where the line begins, None for nobody knows


class Command(Struct, frozen=True):
    """One simple command, without what only wraps it, its assignments and its redirections."""

    words: tuple[str, ...]
    text: str  # that a rule which allows must match
    others: tuple[str, ...] = ()  # further readings, for rules that forbid
    doubts: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()  # files among its words, of programs that are well known
    writes: tuple[str, ...] = ()
    removes: bool = False  # what it writes to
    hosts: tuple[str, ...] = ()
    idle: bool = False  # alone it does nothing but print, or move
    folders: tuple[Folder, ...] = ("",)
    inner: bool = False  # run by another that is judged as a whole, such as sudo
    span: tuple[int, int] | None = None  # in the line, where it stands there as it is

    @property
    def told(self) -> str:
        return shown(self.text)


class Redirection(Struct, frozen=True):
    path: str
    writes: bool
    folders: tuple[Folder, ...] = ("",)


class Script(Struct, frozen=True):
    commands: tuple[Command, ...] = ()
    redirections: tuple[Redirection, ...] = ()


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
