"""Parses a command line: what bash and a POSIX shell would run and write because of it."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from functools import lru_cache

from msgspec.structs import replace

from tillerman.core.permission.shell.command_execution import CommandExecution
from tillerman.core.permission.shell.evaluation import Evaluator
from tillerman.core.permission.shell.findings import Findings
from tillerman.core.permission.shell.parsed_script import SIGNS, ParsedCommand, ParsedScript
from tillerman.core.permission.shell.parsing.syntax import Dialect, UnparsableCommand
from tillerman.core.permission.shell.program_execution import CommandContext
from tillerman.core.permission.shell.shell_state import ShellState

LONGEST = 100_000
_CACHED = 1_000  # characters
FAULT = "the parser failed"
_ODD = frozenset({"Cc", "Cf", "Co", "Cs", "Zl", "Zp", "Zs"})
_FINE = frozenset(" \t\n")
_UNSURE = SIGNS | {"\ufffd"}  # stands for what could not be decoded


def read(line: str, start: str = "") -> ParsedScript:
    """What the line does, as far as it is known without running it. Never raises.

    `start` is the absolute path of its working directory, if known. Agents repeat commands, so
    some short ones are cached.
    """
    return _read_cached(line, start) if len(line) <= _CACHED else _read(line, start)


@lru_cache(maxsize=64)
def _read_cached(line: str, start: str) -> ParsedScript:
    return _read(line, start)


def _read(line: str, start: str) -> ParsedScript:
    odd = _odd(line)
    reasons = [f"a misleading character: {odd!a}"] if odd else []
    if len(line) > LONGEST:
        reasons.append(f"longer than {LONGEST} characters")
    text = line[:LONGEST]
    findings = _read_as("bash", text, start)
    found = findings.script()
    if findings.dialects_differ:
        found = _merged(found, _read_as("posix", text, start).script())
    if reasons:
        unread = (*reasons, *found.unread)
        found = replace(found, unread=unread, commands=_without_spans(found.commands))
    return found


def read_words(words: Sequence[str]) -> ParsedScript:
    """Parses a command given as arguments, without a shell."""
    findings = Findings()
    odd = _odd("".join(words))
    if odd or "\0" in "".join(words):
        findings.unread(f"a misleading character: {odd or chr(0)!a}")
    shell = Evaluator("bash", findings)
    if words:
        _guarded(
            lambda: CommandExecution(shell).program(list(words), ShellState(), CommandContext()),
            findings,
        )
        _guarded(lambda: _run_written_files(findings), findings)
    return findings.script()


def _odd(line: str) -> str:
    """A character that is invisible, or looks like another."""
    if line.isascii() and line.isprintable():
        return ""
    odd = {c for c in set(line) - _FINE if unicodedata.category(c) in _ODD or c in _UNSURE}
    return min(odd, default="")


def _read_as(dialect: Dialect, text: str, start: str) -> Findings:
    findings = Findings()
    shell = Evaluator(dialect, findings)

    def line() -> None:
        try:
            shell.read(text, ShellState(start))
        finally:
            shell.finish()

    _guarded(line, findings, syntax=dialect == "bash")
    _guarded(lambda: _run_written_files(findings), findings)
    return findings


def _guarded(work: Callable[[], None], findings: Findings, *, syntax: bool = True) -> None:
    """Records errors as reasons; `syntax`: a syntax error makes the line unparsed."""
    try:
        work()
    except UnparsableCommand as error:
        if syntax or "more than" in str(error) or "too many" in str(error):
            findings.unread(str(error))
    except RecursionError:
        findings.unread("too many levels of nesting")
    except Exception as error:  # a bug of the parser must not approve a line
        findings.unread(f"{FAULT}: {error!r}")


def _run_written_files(findings: Findings) -> None:
    """Evaluates script files that the line itself wrote and then runs."""
    findings.pass_written_texts()
    for run in list(findings.run):
        texts = findings.texts_written_to(run)
        if texts is None:
            continue
        findings.doubt(run.place, "a file that the line itself wrote")
        if run.in_shell:
            findings.unread("commands read from a file that the line itself wrote")
        for text in dict.fromkeys(texts):
            if text is None:
                continue
            shell = Evaluator("bash", findings, depth=2)
            state = ShellState().changed(directories=run.directories)
            execution = CommandExecution(shell)
            execution.nested_script(text, ("bash", "posix"), state, CommandContext())


def _merged(bash: ParsedScript, posix: ParsedScript) -> ParsedScript:
    """The union of what both shells may do."""
    if bash == posix:
        return bash
    commands = bash.commands
    if posix.commands != bash.commands:
        commands = _without_spans(tuple(dict.fromkeys((*bash.commands, *posix.commands))))
        commands = tuple(dict.fromkeys(commands))
    return ParsedScript(
        commands,
        tuple(dict.fromkeys((*bash.redirections, *posix.redirections))),
        tuple(dict.fromkeys((*bash.unread, *posix.unread))),
    )


def _without_spans(commands: tuple[ParsedCommand, ...]) -> tuple[ParsedCommand, ...]:
    return tuple(replace(one, span=None) for one in commands)
