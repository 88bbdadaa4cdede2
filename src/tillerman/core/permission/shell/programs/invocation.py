"""Data types for the described effects of one external command."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from tillerman.core.permission.shell.parsed_script import Effect, FileAccess

DecidedAs = Literal["inner", "both", "whole"]


class StdinSource(Struct, frozen=True):
    """The text on a command's standard input, if the line itself determines it."""

    text: str | None = None
    certain: bool = True  # False: the shell may change it first


class NestedCommand(Struct, frozen=True):
    """A command that this one runs: words without a shell, or a script for one."""

    words: tuple[str, ...] = ()
    script: str | None = None
    decided: DecidedAs = "inner"
    # inner: the nested command is decided in its place (env). both: each is decided (find -exec).
    # whole: this command is decided, and the nested one only by rules that deny (sudo)
    directory: str | None = None  # changes to this directory first; HOLE: unknown
    stdin: Literal["inherits", "none", "unknown"] = "inherits"
    later: bool = False  # maybe not at once, or not in the order of the line
    environment: tuple[tuple[str, str], ...] = ()  # variables that it sets for the command
    remote: bool = False  # on other files (ssh, docker exec): its accesses do not count
    accesses: tuple[FileAccess, ...] | None = None  # if known better than from its arguments (find)


class Invocation(Struct, frozen=True):
    """The effects of a command; accesses and hosts do not include those of its nested commands."""

    text: str
    others: tuple[str, ...] = ()
    effect: Effect = "runs"
    row: str = ""
    accesses: tuple[FileAccess, ...] = ()
    hosts: tuple[str, ...] = ()
    runs: tuple[NestedCommand, ...] = ()
    doubts: tuple[str, ...] = ()
    passed: tuple[str, ...] = ()  # commands that it may run, as far as known
    links: tuple[tuple[str, str], ...] = ()
    # (target, name): afterwards `name` may be, or contain, a link to `target`, a path from the
    # working directory; HOLE if unknown
    directory: str = ""  # it changes to this directory first; HOLE: unknown
    folders: tuple[str, ...] = ()  # that its options name for it to work in besides
