"""A row of the program table, and the draft of a command's effects that it fills."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from tillerman.core.permission.shell.parsed_script import Effect, FileAccess
from tillerman.core.permission.shell.programs.code_text import named_files, passed_commands
from tillerman.core.permission.shell.programs.invocation import (
    DecidedAs,
    Invocation,
    NestedCommand,
    StdinSource,
)
from tillerman.core.permission.shell.programs.mentions import below, mentioned
from tillerman.core.permission.shell.programs.options import Parsed, Style

_ORDER: tuple[Effect, ...] = ("none", "reads", "writes", "runs")
Kind = Literal["read", "write", "remove", "mention"]


class Row(Struct, frozen=True):
    """How a program, or one of its subcommands, interprets its arguments, and its effects."""

    names: str  # `grep|egrep`, `git log`
    effect: Effect = "runs"
    operands: str = ""  # roles in order, `*` after the one that may repeat: `text read*`
    options: str = ""
    style: Style = "getopt"
    when: tuple[tuple[str, str], ...] = ()  # (mark, operands): operand roles with this mark
    default: str = ""  # what it reads without operands
    needs: str = ""  # the mark that the default requires
    command: DecidedAs | None = None  # its options are followed by a command that it runs
    skip: int = 0  # operands before that command
    shell: bool = False  # it passes the command to a shell
    remote: bool = False  # and runs it on other files than local ones
    hosts: bool = False  # its operands may be hosts
    skips_hidden: bool = False
    tracked: bool = False
    follows_links: bool = False
    names_only: bool = False
    assignments: bool = False  # NAME=VALUE may precede its command
    passes: bool = False  # it may run commands named in its arguments, in ways no row describes
    own: bool = False  # `refine` interprets all arguments
    everywhere: bool = False  # its options may also follow its subcommands
    refine: Callable[[InvocationDraft], None] | None = None
    samples: tuple[str, ...] = ()  # of rows that only read: lines that the tests run


class InvocationDraft:
    """The known effects of a command; `refine` of a row adds what no grammar describes."""

    def __init__(self, words: Sequence[str], row: Row, stdin: StdinSource, parsed: Parsed) -> None:
        self.words = words  # without the options before a subcommand
        self.program = words[0]
        self.row = row
        self.stdin = stdin
        self.parsed = parsed
        self.effect: Effect = row.effect
        self.accesses: list[FileAccess] = []
        self.hosts: list[str] = []
        self.runs: list[NestedCommand] = []
        self.doubts: list[str] = []
        self.links: list[tuple[str, str]] = []
        self.others: list[str] = []
        self.directory = ""  # the directory it changes to first
        self.entered: list[str] = []  # as its options name it
        self.only: list[str] = []

    def at_least(self, effect: Effect) -> None:
        self.effect = max(self.effect, effect, key=_ORDER.index)

    def doubt(self, why: str) -> None:
        self.doubts.append(why)
        self.effect = "runs"

    def added(self, folder: str, kind: Kind = "read") -> None:
        """Records the files below a folder that git neither tracks nor ignores."""
        self.access(folder, kind, recursive=True)
        if self.accesses and self.accesses[-1].recursive:
            self.accesses[-1] = replace(self.accesses[-1], untracked=True, tracked=False)

    def some_below(self, folder: str, kind: Kind = "write") -> None:
        """Records changes of files below a folder that the line does not name.

        In the working directory these are some files; in a folder named for it, any.
        """
        self.access(folder, kind, recursive=True)
        if self.accesses and posixpath.normpath(folder) == ".":
            self.accesses[-1] = replace(self.accesses[-1], possible=True)

    def access(self, path: str, kind: Kind, *, recursive: bool = False) -> None:
        if path in ("", "-") or (kind == "read" and path.startswith(("http://", "https://"))):
            return
        self.at_least("writes" if kind in ("write", "remove") else "reads")
        row = self.row
        searched = recursive and kind == "read"
        found = FileAccess(
            path,
            kind,
            recursive,
            only=tuple(self.only) if searched else (),
            skips_hidden=searched and row.skips_hidden and "hidden" not in self.parsed.marks,
            tracked=recursive and row.tracked and "untracked" not in self.parsed.marks,
            follows_links=recursive and self._follows_links,
            names_only=searched and self._names_only,
        )
        self.accesses.append(found)

    @property
    def _follows_links(self) -> bool:
        marks = self.parsed.marks
        return "follows" in marks or (self.row.follows_links and "keeps" not in marks)

    @property
    def _names_only(self) -> bool:
        marks = self.parsed.marks
        return "names" in marks or (self.row.names_only and "doubt" not in marks)

    def mention(self, words: Sequence[str]) -> None:
        for word in words:
            for path in mentioned(word):
                self.access(path, "mention")

    def code(self, text: str) -> None:
        """Records the files named in code that it runs."""
        for path in named_files(text):
            self.access(path, "mention")

    def run(
        self,
        words: Sequence[str],
        decided: DecidedAs,
        *,
        remote: bool = False,
        environment: Sequence[tuple[str, str]] = (),
    ) -> None:
        self.at_least("runs")
        self.runs.append(
            NestedCommand(
                tuple(words), decided=decided, remote=remote, environment=tuple(environment)
            )
        )

    def script(self, text: str, decided: DecidedAs = "whole", *, remote: bool = False) -> None:
        self.at_least("runs")
        self.runs.append(NestedCommand(script=text, decided=decided, remote=remote))

    def finish(self, text: str, others: Sequence[str]) -> Invocation:
        directory = self.directory
        accesses = [replace(one, path=below(directory, one.path)) for one in self.accesses]
        if directory:
            accesses.append(FileAccess(directory, "read"))
        return Invocation(
            text,
            tuple(dict.fromkeys([*others, *self.others])),
            self.effect,
            self.program,
            tuple(dict.fromkeys(accesses)),
            tuple(dict.fromkeys(self.hosts)),
            tuple(self._moved(run) for run in self.runs),
            tuple(dict.fromkeys(self.doubts)),
            self._passed() if self.row.passes else (),
            tuple((below(directory, a), below(directory, b)) for a, b in self.links),
            directory,
        )

    def _passed(self) -> tuple[str, ...]:
        return (*passed_commands(self.words), *passed_commands(["", self.stdin.text or ""]))

    def _moved(self, run: NestedCommand) -> NestedCommand:
        if not self.directory or run.directory is not None:
            return run
        return replace(run, directory=self.directory)
