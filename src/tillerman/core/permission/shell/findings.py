"""Collects the findings of a line: commands, file accesses, and parts that could not be parsed."""

from __future__ import annotations

import posixpath
import re
from typing import NamedTuple

from msgspec.structs import replace

from tillerman.core.permission.shell.expansion.arithmetic import ArithmeticNames
from tillerman.core.permission.shell.made_links import Link, through_links
from tillerman.core.permission.shell.parsed_script import (
    HOLE,
    FileAccess,
    ParsedCommand,
    ParsedScript,
    is_open,
)
from tillerman.core.permission.shell.parsing.syntax import UnparsableCommand
from tillerman.core.permission.shell.programs.code_text import passed_commands
from tillerman.core.permission.shell.programs.invocation import Invocation, StdinSource
from tillerman.core.permission.shell.shell_state import Directories, below

MOST_COMMANDS = 500
_MOST_STEPS = 20_000
_MODES = frozenset({"chmod", "chown", "chgrp"})  # do not change the content of a file
NO_FILE = re.compile(r"/dev/(null|stdin|stdout|stderr|tty|fd/\d+|zero|urandom|random)")


# Programs that run commands of a file that they find by its name.
_BUILDS = frozenset({
    "make", "gmake", "npm", "pnpm", "yarn", "bun", "npx", "just", "task", "rake", "cargo", "ninja",
    "tox", "nox", "composer", "pre-commit", "git", "docker", "podman", "pytest", "invoke", "mvn",
    "gradle", "gradlew", "scons", "vagrant", "deno", "turbo", "nx", "lerna", "cmake", "meson",
})  # fmt: skip
_BUILD_FILES = frozenset({
    "Makefile", "makefile", "GNUmakefile", "package.json", "justfile", "Justfile", ".justfile",
    "Taskfile.yml", "Taskfile.yaml", "Rakefile", "build.rs", "Cargo.toml", "build.ninja",
    "tox.ini", "noxfile.py", "composer.json", ".pre-commit-config.yaml", "Dockerfile",
    "docker-compose.yml", "compose.yaml", "conftest.py", "tasks.py", "pom.xml", "build.gradle",
    "SConstruct", "Vagrantfile", "deno.json", "CMakeLists.txt", "meson.build", "config.toml",
})  # fmt: skip


class WrittenFile(NamedTuple):
    path: str
    directories: Directories
    text: str | None  # None: unknown
    place: int = -1  # index of a command that may have written it


class RunFile(NamedTuple):
    """A script file that the command at `place` runs; `in_shell`: in this shell itself."""

    path: str
    directories: Directories
    place: int
    in_shell: bool


class Findings:
    """The findings of one line in one dialect, shared by all evaluators."""

    def __init__(self) -> None:
        self.commands: list[ParsedCommand] = []
        self.redirections: list[FileAccess] = []
        self.reasons: dict[str, None] = {}
        self.arithmetic = ArithmeticNames()
        self.dialects_differ = False  # in the line or a script nested in it
        self._links: list[Link] = []
        self._places: list[int] = []  # per redirection: number of commands before it
        self.written: list[WrittenFile] = []
        self.run: list[RunFile] = []
        self.substituted: list[str] = []  # what process substitutions print, or HOLE
        self.directories: set[str | None] = {""}  # every directory that the line was in
        self.characters = 0  # of nested scripts
        self.described: dict[tuple[tuple[str, ...], StdinSource], Invocation] = {}
        self._steps = 0

    def unread(self, reason: str) -> None:
        self.reasons[reason] = None

    def step(self) -> None:
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise UnparsableCommand("too many steps")

    def add(self, command: ParsedCommand) -> int:
        """Adds a command and returns its index."""
        if len(self.commands) >= MOST_COMMANDS:
            raise UnparsableCommand(f"more than {MOST_COMMANDS} commands")
        self.commands.append(command)
        place = len(self.commands) - 1
        for access in command.accesses:
            if access.kind == "mention" or (access.kind == "write" and command.row not in _MODES):
                named = place if access.kind == "mention" else -1
                self.written.append(WrittenFile(access.path, access.directories, None, named))
        if any(doubt.startswith("a script of ") for doubt in command.doubts):
            self.written.append(WrittenFile(HOLE, command.directories, None, place))
        return place

    def access(self, access: FileAccess, text: str | None = None) -> None:
        """Adds the file of a redirection; `text` is what it writes, if known."""
        if NO_FILE.fullmatch(access.path):
            return
        if len(self.redirections) >= MOST_COMMANDS:
            raise UnparsableCommand(f"more than {MOST_COMMANDS} redirections")
        self.redirections.append(access)
        self._places.append(len(self.commands) + 1)
        if access.kind == "write":
            self.written.append(WrittenFile(access.path, access.directories, text))

    def doubt(self, place: int, reason: str) -> None:
        command = self.commands[place]
        doubts = tuple(dict.fromkeys((*command.doubts, reason)))
        self.commands[place] = replace(command, doubts=doubts)

    def pass_written_texts(self) -> None:
        """A program that is not in the table may run the text that the line wrote to a file."""
        known = [one for one in self.written if one.text]
        for place, command in enumerate(self.commands if known else ()):
            texts = [one.text for one in known if _may_run(command, place, one)]
            found = (one for text in texts for one in passed_commands(["", text or ""]))
            passed = tuple(dict.fromkeys((*command.passed, *found)))
            self.commands[place] = replace(command, passed=passed)

    def texts_written_to(self, run: RunFile) -> list[str | None] | None:
        """The texts that the line wrote to a file that it runs; None if it did not write there."""
        found = [
            one.text
            for one in self.written
            if one.place < run.place
            and (is_open(one.path) or is_open(run.path) or _may_be_same(run, one))
        ]
        return found or None

    def link(
        self, target: str, name: str, directories: Directories, words: list[str], *, again: bool
    ) -> None:
        """From the next command on, `name` may link to `target`; `again`: in the whole loop."""
        known = not is_open(target) and not is_open(name)
        place = -1 if again and known else len(self.commands)
        self._links.append(Link(target, name, directories, place, tuple(words)))

    def script(self) -> ParsedScript:
        for reason in self.arithmetic.unread():
            self.unread(reason)
        commands, redirections = self.commands, self.redirections
        if self._links:
            commands = [
                replace(
                    one,
                    accesses=tuple(through_links(one.accesses, self._links, at, one.words)),
                    folders=tuple(through_links(one.places, self._links, at, one.words)),
                )
                for at, one in enumerate(commands)
            ]
            redirections = [
                found
                for one, at in zip(redirections, self._places, strict=True)
                for found in through_links([one], self._links, at)
            ]
        if len(commands) > 1:
            commands = list(dict.fromkeys(commands))
        if doubts := tuple(self.arithmetic.doubts()):
            commands = [*commands, ParsedCommand(("((",), "((…))", doubts=doubts)]
        unread = tuple(self.reasons)
        if unread:
            commands = [replace(one, span=None) for one in commands]
        return ParsedScript(tuple(commands), tuple(dict.fromkeys(redirections)), unread)


def _may_run(command: ParsedCommand, place: int, written: WrittenFile) -> bool:
    """Whether a program may run the text: its argument, or a file of the project it builds."""
    if posixpath.basename(command.words[0] if command.words else "") in _BUILDS:
        return posixpath.basename(written.path) in _BUILD_FILES or is_open(written.path)
    if (command.row and not command.passed) or is_open(written.path):
        return False
    return any(
        access.kind == "mention"
        and not is_open(access.path)
        and _may_be_same(RunFile(access.path, access.directories, place, False), written)
        for access in command.accesses
    )


def _may_be_same(run: RunFile, written: WrittenFile) -> bool:
    """Compares base names if a directory is unknown, or if the paths have different origins."""
    wholes = {below(base, run.path) for base in run.directories}
    others = {below(base, written.path) for base in written.directories}
    if None in wholes or None in others or len({_origin(one) for one in wholes | others}) > 1:
        return posixpath.basename(run.path) == posixpath.basename(written.path)
    return not {posixpath.normpath(one or "") for one in wholes}.isdisjoint(
        posixpath.normpath(one or "") for one in others
    )


def _origin(path: str | None) -> str:
    return path[0] if path and path[0] in "/~" else ""
