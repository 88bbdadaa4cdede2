"""Builtins that change the working directory."""

from __future__ import annotations

import re

from bridle.core.permission.shell.command_execution import Call
from bridle.core.permission.shell.evaluation import Outcome, either
from bridle.core.permission.shell.parsed_script import HOLE, Directory, FileAccess, is_open
from bridle.core.permission.shell.shell_state import Directories, ShellState, below, limited

_OPTIONS = re.compile(r"-[LPe@sq]+|--")
_ANCHORED = re.compile(r"/|~|\.\.?(/|$)")
_ROTATES = re.compile(r"[-+]\d+")


def cd(call: Call) -> Outcome:
    state = call.state
    operands = [word for word in call.words[1:] if not _OPTIONS.fullmatch(word)]
    if not operands:
        home = state.variables.get("HOME", "~")
        return _to(call, home if isinstance(home, str) else HOLE)
    if len(operands) > 1 or is_open(operands[0]):
        call.execution.note(call, accesses=_reads(operands))
        return Outcome(state.moved((None,)), state)
    if operands[0] == "-":
        call.execution.note(call)
        return Outcome(state.moved(state.previous or (None,)), state)
    return _to(call, operands[0])


def _to(call: Call, target: str) -> Outcome:
    call.execution.note(call, accesses=_reads([target]))
    return Outcome(call.state.moved(_targets(call.state, target)), call.state)


def _targets(state: ShellState, target: str) -> Directories:
    bases: list[Directory] = list(state.directories)
    found = [below(base, target) for base in bases]
    if not _ANCHORED.match(target):
        paths = state.variables.get("CDPATH")
        if isinstance(paths, str):
            entries = [HOLE] if is_open(paths) else paths.split(":")
            starts = [below(base, entry or ".") for base in bases for entry in entries]
            found += [below(start, target) for start in starts]
        elif paths is not None:
            found.append(None)
    if "cdable_vars" in state.options:
        value = state.variables.get(target)
        found += [below(base, value) if isinstance(value, str) else None for base in bases]
    return limited(found)


def pushd(call: Call) -> Outcome:
    state = call.state
    operands = [word for word in call.words[1:] if word not in ("-n", "--", "-q")]
    call.execution.note(call, accesses=_reads(operands))
    if "-n" in call.words:
        return either(state.changed(stack=None))
    if len(operands) != 1 or _ROTATES.fullmatch(operands[0]) or operands[0].startswith("-"):
        return Outcome(state.moved((None,)).changed(stack=None), state)
    stack = (*state.stack, state.directories) if state.stack is not None else None
    moved = state.moved(_targets(state, operands[0])).changed(stack=stack)
    return Outcome(moved, state)


def popd(call: Call) -> Outcome:
    state = call.state
    call.execution.note(call)
    if "-n" in call.words:
        return either(state.changed(stack=None))
    if len(call.words) > 1 or not state.stack:
        return Outcome(state.moved((None,)).changed(stack=None), state)
    return Outcome(state.moved(state.stack[-1]).changed(stack=state.stack[:-1]), state)


def dirs(call: Call) -> Outcome:
    call.execution.note(call)
    return either(call.state.changed(stack=None) if "-c" in call.words else call.state)


def _reads(paths: list[str]) -> tuple[FileAccess, ...]:
    return tuple(FileAccess(path, "read") for path in paths if not _ROTATES.fullmatch(path))
