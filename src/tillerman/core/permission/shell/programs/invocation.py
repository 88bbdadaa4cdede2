"""What one external command does, as far as its words tell."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from tillerman.core.permission.shell.parsed_script import Effect, FileAccess

Judged = Literal["inner", "both", "whole"]


class StdinSource(Struct, frozen=True):
    """The text on a command's standard input, where the line itself tells it."""

    text: str | None = None
    certain: bool = True  # False: the shell may change it first


class NestedCommand(Struct, frozen=True):
    """Another command that this one runs: words without a shell, or a script for one."""

    words: tuple[str, ...] = ()
    script: str | None = None
    judged: Judged = "inner"
    # inner: what is run stands for it (env). both: each is judged (find -exec). whole: it is judged
    # as it stands, and what it runs only by rules that forbid (sudo)
    directory: str | None = None  # it first changes to this directory; HOLE: unknown
    stdin: Literal["inherits", "none", "unknown"] = "inherits"
    later: bool = False  # not surely now, or not in the order of the line
    environment: tuple[tuple[str, str], ...] = ()  # variables that it sets for it
    remote: bool = False  # on other files than ours (ssh, docker exec): its accesses do not count
    accesses: tuple[FileAccess, ...] | None = None  # if known better than its words tell (find)


class Invocation(Struct, frozen=True):
    """Accesses and hosts are the command's own: those of what it runs come from its runs."""

    text: str
    others: tuple[str, ...] = ()
    effect: Effect = "runs"
    row: str = ""
    accesses: tuple[FileAccess, ...] = ()
    hosts: tuple[str, ...] = ()
    runs: tuple[NestedCommand, ...] = ()
    doubts: tuple[str, ...] = ()
    passed: tuple[str, ...] = ()  # commands that it may run, for all that is known of it
    links: tuple[tuple[str, str], ...] = ()
    # (target, name): after it, `name` may be, or hold, a link to `target`, a path from the working
    # directory; HOLE if unknown
