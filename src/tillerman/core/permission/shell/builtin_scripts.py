"""Shell builtins that run commands: eval, source, trap, alias, command, exec and others."""

from __future__ import annotations

import posixpath
import re
from itertools import pairwise

from tillerman.core.permission.shell.command_execution import BuiltinCall
from tillerman.core.permission.shell.evaluation import EvaluationOutcome, either
from tillerman.core.permission.shell.expansion.word_expansion import PROCESS_FILE
from tillerman.core.permission.shell.parsed_script import HOLE, FileAccess, is_open, joined, shown
from tillerman.core.permission.shell.shell_programs import is_stdin, may_be_device
from tillerman.core.permission.shell.shell_state import ShellState, join

_AT_THE_END = frozenset({"EXIT", "0"})
_ALIAS = re.compile(r"([\w.,@%+-]+)=([\w ./=,:@%+~-]*)", re.DOTALL)
# Programs that do something else by another name.
_MANY = frozenset({
    "busybox", "toybox", "gzip", "bzip2", "xz", "lzma", "zstd", "lz4", "vi", "vim", "nvim",
})  # fmt: skip
_RESERVED = frozenset({
    "if", "then", "elif", "else", "fi", "while", "until", "do", "done", "for", "case", "esac", "in",
    "select", "function", "time", "coproc", "{", "}", "!", "[[",
})  # fmt: skip


def evaluate(call: BuiltinCall) -> EvaluationOutcome:
    rest = call.words[2:] if call.words[1:2] == ["--"] else call.words[1:]
    text = " ".join(rest)
    before = len(call.execution.findings.commands)
    readings = call.execution.shell.readings
    call.execution.shell.readings = (*readings, *call.context.others, joined(call.words))
    outcome = call.execution.script(text, call.state, computed=call.context.computed)
    call.execution.shell.readings = readings
    if len(call.execution.findings.commands) == before:
        doubts = ("commands computed at run time",) if is_open(text) else ()
        call.execution.note(call, "runs" if doubts else "none", doubts=doubts)
    return EvaluationOutcome(outcome.ok, outcome.failed)


def source(call: BuiltinCall) -> EvaluationOutcome:
    rest = call.words[2:] if call.words[1:2] == ["--"] else call.words[1:]
    execution, state = call.execution, call.state
    if not rest:
        execution.note(call)
        return either(state)
    path = rest[0]
    inside = state.changed(positional=tuple(rest[1:])) if rest[1:] else state
    stdin = is_stdin(path, state.directories)
    if stdin and state.stdin.text is not None:
        execution.note(call, "runs")
        return execution.script(
            state.stdin.text, inside, computed=not state.stdin.certain or call.context.computed
        )
    if is_open(path) or stdin or may_be_device(path, state.directories):
        doubts = ("commands read from an unknown source",)
        execution.note(call, "runs", (FileAccess(path, "read"),), doubts)
        if call.context.computed or (path != PROCESS_FILE and not is_open(path)):
            execution.shell.unread(doubts[0])
        return either(join(state, state.lost()) or state)
    paths = [path, *_in_search_path(path, state)]
    index = execution.note(call, "runs", tuple(FileAccess(one, "read") for one in paths))
    for one in paths:
        if is_open(one):
            execution.shell.unread("commands read from an unknown source")
        execution.source_file(one, state, index)
    return either(state)


def _in_search_path(name: str, state: ShellState) -> list[str]:
    """Paths that `source` searches for a name without a slash, if the line itself sets PATH."""
    value = state.variables.get("PATH")
    if value is None or "/" in name:
        return []
    folders = value.split(":") if isinstance(value, str) else value
    return [f"{folder}/{name}" for folder in folders if folder]


def trap(call: BuiltinCall) -> EvaluationOutcome:
    """The script runs at an unknown time; for DEBUG, after each command."""
    execution = call.execution
    execution.note(call)
    rest = [word for word in call.words[1:] if word != "--"]
    if len(rest) < 2 or rest[0] in ("", "-") or rest[0].startswith("-"):
        return either(call.state)
    script, signals = rest[0], rest[1:]
    if is_open(script):
        execution.shell.unread("a trap whose command is computed at run time")
    if any(one.upper() not in _AT_THE_END for one in signals) and _changes_shell(script, call):
        execution.shell.unread("a trap that changes the shell between commands")
    execution.shell.traps.append((script, call.state))
    return either(call.state)


def _changes_shell(script: str, call: BuiltinCall) -> bool:
    """Whether the script changes the shell's state, unless it ends the shell."""
    shell = call.execution.shell
    escapes, shell.escapes = shell.escapes, []
    after = call.execution.script(script, call.state).after
    leaves, shell.escapes = shell.escapes, escapes
    return bool(leaves) or (after is not None and after.key() != call.state.key())


def alias(call: BuiltinCall) -> EvaluationOutcome:
    """Defines names that stand for other words where the shell expands aliases."""
    execution, state = call.execution, call.state
    found = dict(state.aliases)
    defined = [word for word in call.words[1:] if "=" in word or is_open(word)]
    for word in defined:
        match = _ALIAS.fullmatch(word)
        value = word.partition("=")[2]
        execution.script(value, state)
        if match is None or match[1] in _RESERVED or match[2].endswith(" ") or word[:1] == "-":
            execution.shell.unread("an alias that changes how a line is read")
        else:
            found[match[1]] = match[2]
    doubts = ("a name is redefined",) if defined else ()
    execution.note(call, doubts=doubts)
    return either(state.changed(aliases=found))


def command(call: BuiltinCall) -> EvaluationOutcome:
    at = 1
    while at < len(call.words) and call.words[at].startswith("-"):
        word = call.words[at]
        at += 1
        if word == "--":
            break
        if is_open(word):
            call.execution.shell.unread("unknown arguments of command")
        if "v" in word or "V" in word:
            call.execution.note(call)
            return either(call.state)
    return _inner(call, call.words[at:])


def builtin(call: BuiltinCall) -> EvaluationOutcome:
    rest = call.words[2:] if call.words[1:2] == ["--"] else call.words[1:]
    return _inner(call, rest)


def prefix(call: BuiltinCall) -> EvaluationOutcome:
    return _inner(call, call.words[1:])


def repeat(call: BuiltinCall) -> EvaluationOutcome:
    outcome = _inner(call, call.words[2:])
    after = join(call.state, outcome.after) or call.state
    return either(after.widened(call.state))


def _inner(call: BuiltinCall, words: list[str]) -> EvaluationOutcome:
    """Runs the remaining words as a command, without function lookup."""
    if not words:
        call.execution.note(call)
        return either(call.state)
    context = call.context._replace(
        others=(*call.context.others, joined(call.words)),
        span=None,
        depth=call.context.depth + 1,
    )
    outcome = call.execution.builtin_or_program(words, call.state, context, call.assignments)
    if is_open(words[0]):
        return either(join(call.state, call.state.lost()) or call.state)
    return outcome


def execute(call: BuiltinCall) -> EvaluationOutcome:
    """Replaces the shell; without a command, only its redirections remain."""
    at, state, named = 1, call.state, ""
    while at < len(call.words) and call.words[at].startswith("-") and call.words[at] != "-":
        word = call.words[at]
        at += 1
        if word == "--":
            break
        if is_open(word) or word[1:].strip("cla"):
            call.execution.shell.unread("unknown arguments of exec")
        if word.endswith("a"):
            named = "".join(call.words[at : at + 1])
            if posixpath.basename(named).lstrip("-") == "sh" or is_open(named):
                state = state.changed(options=state.options | {"posix"})  # bash by that name
            at += 1
    words = call.words[at:]
    if not words:
        call.execution.note(call)
        return either(call.state)
    program = posixpath.basename(words[0])
    if named and posixpath.basename(named) != program and (program in _MANY or is_open(program)):
        call.execution.shell.unread(f"{shown(program)} does what its name says, and has another")
    context = call.context._replace(
        others=(*call.context.others, joined(call.words)), span=None, depth=call.context.depth + 1
    )
    call.execution.program(words, state, context)
    return either(call.state)


def jobs(call: BuiltinCall) -> EvaluationOutcome:
    for at, word in enumerate(call.words[1:], 2):
        if not word.startswith("-") or word == "--":
            break
        if "x" in word and call.words[at:]:
            return _inner(call, call.words[at:])
    call.execution.note(call)
    return either(call.state)


def complete(call: BuiltinCall) -> EvaluationOutcome:
    """Checks options: `-C` is a command, `-W` is expanded, `-F` is a function."""
    execution = call.execution
    execution.note(call)
    flags = [word for word in call.words[1:] if word.startswith("-") or is_open(word)]
    for word, following in pairwise([*call.words[1:], ""]):
        if word.startswith("-") and "C" in word:  # also combined, also attached
            run_later(call, f"{word.partition('C')[2] or following} {HOLE}")
    if any(is_open(flag) or set("FW") & set(flag) for flag in flags) or any(
        "$" in word or "`" in word for word in call.words[1:]
    ):
        execution.shell.unread(f"{call.words[0]} may evaluate text as commands")
    return either(call.state)


def run_later(call: BuiltinCall, text: str) -> ShellState:
    """Runs a command to which the shell adds arguments itself."""
    outcome = call.execution.script(text, call.state, computed=call.context.computed)
    return join(call.state, outcome.after) or call.state
