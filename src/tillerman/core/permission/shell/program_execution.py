"""Evaluates programs that a command line runs, including the commands they run in turn."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from tillerman.core.permission.shell.dangerous_variables import is_harmless, steers
from tillerman.core.permission.shell.evaluation import Evaluator
from tillerman.core.permission.shell.expansion.arithmetic import is_code
from tillerman.core.permission.shell.expansion.word_expansion import PROCESS_FILE
from tillerman.core.permission.shell.findings import NO_FILE, RunFile
from tillerman.core.permission.shell.parsed_script import (
    ANY,
    HOLE,
    FileAccess,
    ParsedCommand,
    is_open,
    joined,
    unquoted,
)
from tillerman.core.permission.shell.parsing.syntax import (
    Dialect,
    UnparsableCommand,
)
from tillerman.core.permission.shell.programs import (
    Invocation,
    NestedCommand,
    StdinSource,
    describe,
)
from tillerman.core.permission.shell.programs.code_text import named_files, passed_commands
from tillerman.core.permission.shell.programs.mentions import mentioned
from tillerman.core.permission.shell.programs.table import WITH_SUBCOMMANDS
from tillerman.core.permission.shell.programs.tables.files import TEMPORARY
from tillerman.core.permission.shell.programs.work_folders import folders_in_variable
from tillerman.core.permission.shell.shell_programs import (
    SHELLS,
    ShellCall,
    may_be_device,
    shell_call,
)
from tillerman.core.permission.shell.shell_state import (
    NO_STDIN,
    ShellState,
    below,
    limited,
)

_DEEPEST = 12  # nesting of scripts and of commands
_CODE = re.compile(r"[;&|<>()$`\n\\'\"{}*?\[#]")
COMPUTED = "commands computed at run time"
_ASSIGNS = re.compile(r"\w*=")
# Variables with a folder, and those that name a file in it.
_NAMED_IN = {"TZDIR": "TZ", "TERMINFO": "TERM"}
_LOGS = re.compile("LOG|TRACE|COVERAGE|PYCACHE|HISTFILE|REDIRECT")  # name a file that is written
_LIKE_PATH = re.compile("[./~]")
_RANDOM = re.compile(r"X{3,}(?=[^/]*$)")
_ALSO_PROGRAMS = frozenset({"command", "exec", "builtin"})  # on some systems


class CommandContext(NamedTuple):
    """The context in which a command is run."""

    others: tuple[str, ...] = ()  # alternative readings of it
    doubts: tuple[str, ...] = ()
    prefix: tuple[str, ...] = ()  # assignments that may change what it does
    inner: bool = False
    span: tuple[int, int] | None = None
    computed: bool = False  # the line itself computes some of its words
    depth: int = 0
    remote: bool = False
    accesses: tuple[FileAccess, ...] | None = None  # replace those of the program


class ProgramExecution:
    """Evaluates programs that run in another process, and records the findings."""

    def __init__(self, shell: Evaluator) -> None:
        self.shell = shell
        self.findings = shell.findings

    def program(self, words: list[str], state: ShellState, context: CommandContext) -> None:
        """Evaluates a program of this name, even if the shell has a builtin of that name."""
        if context.depth > _DEEPEST:
            raise UnparsableCommand("too many levels of nesting")
        if posixpath.basename(words[0]) in SHELLS and self._shell_program(words, state, context):
            return
        if posixpath.basename(words[0]) in _ALSO_PROGRAMS and (rest := _operands(words)):
            others = (*context.others, joined(words))
            self.program(
                rest, state, context._replace(others=others, span=None, depth=context.depth + 1)
            )
            return
        if _ASSIGNS.match(words[0]) and len(words) > 1:  # a prefix, where `time` is a keyword
            self.program(words[1:], state, context._replace(depth=context.depth + 1))
        found = self._described(words, state)
        if found.row == "mktemp":
            found = _with_random_names(found, state)
        for target, name in found.links:
            self.findings.link(target, name, state.directories, words, again=self.shell.in_loop)
        passes = words == ["cat"]
        if (not found.row or found.passed) and any(PROCESS_FILE in word for word in words):
            found = self._given_texts(found)
        if not found.runs:
            index = self.add(words, found, state, context)
            if "/" in words[0] and not is_open(words[0]):
                self._runs_file(words[0], state, index, in_shell=False)
            elif "PATH" in state.variables:
                self._runs_file(words[0], state.changed(directories=(None,)), index, in_shell=False)
            if passes:
                self.shell.printed = state.stdin
            elif found.row == "mktemp" and len(found.accesses) == 1:
                self.shell.printed = StdinSource(found.accesses[0].path)
            return
        stands = all(run.decided == "inner" for run in found.runs) and not found.hosts
        index = -1 if stands else self.add(words, found, state, context)
        if stands:
            for access in found.accesses:
                self.findings.access(replace(access, directories=state.directories))
        commands = self.findings.commands
        first = len(commands)
        for run in found.runs:
            before = len(commands)
            self._run(run, words, found, state, context)
            if index >= 0 and not (run.remote or context.remote):
                commands[index] = _also_working_in(commands[index], commands[before:])
        if stands and len(commands) == first:
            self.add(words, found, state, context)

    def _given_texts(self, found: Invocation) -> Invocation:
        """A program that may run what a process substitution prints."""
        texts = [text for text in self.findings.substituted if text]
        passed = (one for text in texts for one in passed_commands(["", text]))
        doubts = (COMPUTED,) if any(map(is_open, texts)) else ()
        return replace(found, passed=(*found.passed, *passed), doubts=(*found.doubts, *doubts))

    def _described(self, words: list[str], state: ShellState) -> Invocation:
        key = (tuple(words), state.stdin)
        found = self.findings.described.get(key)
        if found is None:
            found = self.findings.described[key] = describe(words, state.stdin)
        return found

    def _run(
        self,
        run: NestedCommand,
        words: list[str],
        found: Invocation,
        state: ShellState,
        context: CommandContext,
    ) -> None:
        """Evaluates a command that a program runs in turn."""
        inside = state
        for name, value in run.environment:
            if name.startswith("BASH_FUNC_"):
                self.shell.unread("a function that comes from the environment")
            inside = inside.assigned(name, value).changed(exported=inside.exported | {name})
        if run.directory is not None:
            moved = [below(base, run.directory) for base in state.directories]
            inside = inside.changed(directories=limited(moved))
        if run.stdin != "inherits":
            inside = inside.changed(stdin=NO_STDIN)
        outer = (*context.others, found.text, *found.others) if run.decided == "inner" else ()
        doubts = (*context.doubts, *found.doubts) if run.decided == "inner" else ()
        following = CommandContext(
            others=tuple(dict.fromkeys(outer)),
            doubts=tuple(dict.fromkeys(doubts)),
            prefix=context.prefix,
            inner=context.inner or run.decided == "whole",
            computed=context.computed,
            depth=context.depth + 1,
            remote=context.remote or run.remote,
            accesses=run.accesses if run.accesses is not None else context.accesses,
        )
        if run.script is not None:
            self.program(["sh", "-c", run.script], inside, following)
        elif run.words:
            self.program(list(run.words), inside, following)

    def _shell_program(self, words: list[str], state: ShellState, context: CommandContext) -> bool:
        """Evaluates a shell that is called as a program with its commands, a file, or input."""
        call = shell_call(words, state)
        if call.file is not None:
            found = describe(words, state.stdin)
            doubts = (*found.doubts, *call.doubts)
            read = FileAccess(call.file, "read")
            accesses = found.accesses if read in found.accesses else (*found.accesses, read)
            plain = replace(found, runs=(), effect="runs", row="", doubts=doubts, accesses=accesses)
            index = self.add(words, plain, state, context)
            self._runs_file(call.file, state, index, in_shell=False)
            self._reads_first(call, state, index)
            return True
        if call.script is None:
            doubt = call.doubts or ("a shell that runs its input",)
            found = describe(words, NO_STDIN)
            plain = replace(found, runs=(), effect="runs", doubts=doubt)
            index = self.add(words, plain, state, context)
            self._reads_first(call, state, index)
            return True
        self._shell_script(words, call, state, context)
        return True

    def _shell_script(
        self, words: list[str], call: ShellCall, state: ShellState, context: CommandContext
    ) -> None:
        inside = state.changed(
            options=state.options | call.options,
            positional=call.positional,
            variables={
                name: value if name in state.exported else HOLE
                for name, value in state.variables.items()
            },
            functions={name: (bodies, False) for name, (bodies, _) in state.functions.items()},
            stdin=NO_STDIN if call.from_stdin else state.stdin,
            aliases={},
        )
        base = posixpath.basename(words[0])
        outer = (*context.others, joined(words), joined([base, *words[1:]]))
        following = context._replace(
            others=tuple(dict.fromkeys(outer)),
            doubts=(*context.doubts, *call.doubts),
            span=None,
            depth=context.depth + 1,
        )
        if call.interactive:
            self._remember(call, state)
        before = len(self.findings.commands)
        self.nested_script(call.script or "", call.dialects, inside, following)
        if len(self.findings.commands) == before:
            plain = Invocation(joined(words), effect="runs", doubts=call.doubts)
            self.add(words, plain, state, context)
        self._reads_first(call, state, before)

    def _remember(self, call: ShellCall, state: ShellState) -> None:
        """Records that an interactive shell stores the commands that it reads in its history."""
        if "!" in (call.script or ""):
            self.shell.unread("history expansion may insert commands")
        if call.from_stdin:
            file = state.variables.get("HISTFILE", "~/.bash_history")
            path = file if isinstance(file, str) else HOLE
            self.findings.access(FileAccess(path, "write", directories=state.directories))

    def _reads_first(self, call: ShellCall, state: ShellState, index: int) -> None:
        for file in call.startup:
            self._runs_file(file, state, index, in_shell=False)
        for file in call.first:
            if is_code(file):
                self.shell.unread("a shell that expands the name of the file it reads first")
            if is_open(file) or may_be_device(file, state.directories):
                self.shell.unread("a shell that first reads unknown commands")
            self.findings.access(FileAccess(file, "read", directories=state.directories))
            self._runs_file(file, state, index, in_shell=False)

    def nested_script(
        self, text: str, dialects: Sequence[Dialect], state: ShellState, context: CommandContext
    ) -> None:
        """Evaluates text for another shell."""
        if context.depth > _DEEPEST:
            raise UnparsableCommand("too many levels of nesting")
        doubts = context.doubts
        if is_open(text):
            doubts = (*doubts, COMPUTED)
            if context.computed:
                self.shell.unread(COMPUTED)
        for dialect in dialects:
            inner = Evaluator(
                dialect,
                self.findings,
                depth=self.shell.depth + context.depth + 1,
                inner=self.shell.inner or context.inner,
                readings=(*self.shell.readings, *context.others),
                doubts=(*self.shell.doubts, *doubts),
            )
            try:
                inner.read(text, state)
                inner.finish()
            except UnparsableCommand as error:
                if dialect == "bash" or "bash" not in dialects:
                    self.shell.unread(str(error))
        if is_open(text) and not _CODE.search(text) and text.strip() == HOLE:
            self.add([HOLE], Invocation(HOLE, doubts=(COMPUTED,)), state, context)

    def _runs_file(self, path: str, state: ShellState, index: int, *, in_shell: bool) -> None:
        self.findings.run.append(RunFile(path, state.directories, index, in_shell))

    def source_file(self, path: str, state: ShellState, index: int) -> None:
        self._runs_file(path, state, index, in_shell=True)

    # -- recording of findings -------------------------------------------------------------------

    def add(
        self,
        words: Sequence[str],
        found: Invocation,
        state: ShellState,
        context: CommandContext,
        *,
        builtin: bool = False,
    ) -> int:
        shell = self.shell
        self.findings.directories.update(state.directories)
        accesses = found.accesses if context.accesses is None else context.accesses
        if context.remote:
            accesses = ()
        elif state.directories != ("",):
            accesses = tuple(replace(one, directories=state.directories) for one in accesses)
        if state.exported and not builtin:
            named = dict.fromkeys(_files_in_environment(state, words))
            written = dict.fromkeys(_logs_in_environment(state))
            accesses = (
                *accesses,
                *(FileAccess(one, "mention", directories=state.directories) for one in named),
                *(FileAccess(one, "write", directories=state.directories) for one in written),
            )
        if any(one.path.startswith("/dev/") for one in accesses):
            accesses = tuple(one for one in accesses if not NO_FILE.fullmatch(one.path))
        prefix = context.prefix
        if not builtin and (state.environment or state.exported):
            prefix = tuple(dict.fromkeys((*prefix, *state.environment, *_exported(state))))
        text, others = found.text, (*context.others, *found.others, unquoted(words))
        effect = found.effect
        doubts = (*shell.doubts, *context.doubts, *(() if builtin else state.doubts), *found.doubts)
        if prefix:
            others = (*others, text)
            text = " ".join((joined(prefix), text))
            effect = "runs" if not builtin else effect
        if _hides_subcommand(words):
            doubts = (*doubts, f"unknown options of {words[0]}")
        if is_open(words[0]) and not doubts:
            doubts = ("the program is only known at run time",)
        others = (*others, *shell.readings)
        return self.findings.add(
            ParsedCommand(
                words=tuple(words),
                text=text,
                others=tuple(one for one in dict.fromkeys(others) if one != text),
                effect=effect if not doubts else "runs",
                row=found.row if not doubts and not prefix else "",
                doubts=tuple(dict.fromkeys(doubts)),
                passed=found.passed,
                accesses=accesses,
                hosts=found.hosts,
                directories=state.directories,
                folders=() if context.remote else _work_folders(found, state),
                inner=context.inner or shell.inner,
                span=context.span if not context.depth else None,
            )
        )


def _work_folders(found: Invocation, state: ShellState) -> tuple[FileAccess, ...]:
    """The folders that it works in, if its options or variables name any."""
    named = [*found.folders]
    for name in sorted(state.exported & state.variables.keys()):
        value = state.variables[name]
        named += folders_in_variable(name, value) if isinstance(value, str) else ()
    if not found.directory and not named:
        return ()
    bases = state.directories
    if found.directory:
        bases = limited(below(base, found.directory) for base in bases)
    return tuple(FileAccess(path, "read", directories=bases) for path in (".", *named))


def _also_working_in(command: ParsedCommand, inner: Sequence[ParsedCommand]) -> ParsedCommand:
    """The command, which is decided as a whole with those that it runs."""
    places = [place for one in inner if one.inner and one.may_change_any for place in one.places]
    if all(one.directories == ("",) and one.path == "." for one in places):
        return command
    return replace(command, folders=tuple(dict.fromkeys((*command.places, *places))))


def _with_random_names(found: Invocation, state: ShellState) -> Invocation:
    """Fills in the random name of mktemp, below TMPDIR if set and no other directory is named."""
    accesses = [replace(one, path=_RANDOM.sub(ANY, one.path)) for one in found.accesses]
    folder = state.variables.get("TMPDIR")
    if folder is not None:
        base = folder if isinstance(folder, str) else HOLE
        last = [
            one.path.removeprefix(f"{TEMPORARY}/")
            for one in accesses
            if one.path.startswith(f"{TEMPORARY}/")
        ]
        accesses += [FileAccess(posixpath.join(base, name), "write") for name in last]
    return replace(found, accesses=tuple(accesses))


def _files_in_environment(state: ShellState, words: Sequence[str]) -> Iterator[str]:
    """Files named in variables that the line passes to a program, which may read or write them."""
    for name in sorted(state.exported & state.variables.keys()):
        value = state.variables[name]
        if not isinstance(value, str) or is_harmless(name, value):
            continue
        if name in _NAMED_IN and isinstance(file := state.variables.get(_NAMED_IN[name]), str):
            yield posixpath.join(value, file.lstrip(":"))
        if name == "GIT_TEMPLATE_DIR" and words[0].endswith("git"):
            yield ".git/hooks"
        for part in (*mentioned(value), *named_files(value)):
            last = part.rpartition("/")[2]
            if HOLE not in part:
                yield from [part] if _LIKE_PATH.search(part) else []
            elif HOLE not in last and last.startswith("."):
                yield last


def _logs_in_environment(state: ShellState) -> Iterator[str]:
    """Files that programs write because a variable names them."""
    for name in sorted(state.exported & state.variables.keys()):
        value = state.variables[name]
        if _LOGS.search(name) and isinstance(value, str) and "/" in value and "://" not in value:
            yield value


def _exported(state: ShellState) -> Iterator[str]:
    """Variables that the line exports to its programs; other dangerous ones are doubted already."""
    for name in sorted(state.exported & state.variables.keys()):
        value = state.variables[name]
        text = value if isinstance(value, str) else HOLE
        if not steers(name) and not is_harmless(name, text):
            yield f"{name}={text}"


def _hides_subcommand(words: Sequence[str]) -> bool:
    """Whether it is unclear which word is the subcommand: `git -$x src push`."""
    if posixpath.basename(words[0]) not in WITH_SUBCOMMANDS:
        return False
    for word in words[1:]:
        if not word.startswith("-"):
            return False
        if HOLE in word:
            return True
    return False


def _operands(words: list[str]) -> list[str]:
    at = 1
    while at < len(words) and words[at].startswith("-"):
        at += 1
    return words[at:]
