"""Shell builtins that change the working directory: cd, pushd, popd, dirs."""

from __future__ import annotations

import re

from tillerman.core.permission.shell.command_execution import BuiltinCall
from tillerman.core.permission.shell.evaluation import EvaluationOutcome, either
from tillerman.core.permission.shell.expansion.word_expansion import WORKING
from tillerman.core.permission.shell.parsed_script import (
    HOLE,
    SIGNS,
    Directory,
    FileAccess,
    is_open,
)
from tillerman.core.permission.shell.shell_state import (
    Directories,
    ShellState,
    below,
    join,
    limited,
)

_OPTIONS = re.compile(r"-[LPe@sq]+|--")
_ANCHORED = re.compile(r"/|~|\.\.?(/|$)")
_ROTATES = re.compile(r"[-+]\d+")


def cd(call: BuiltinCall) -> EvaluationOutcome:
    state = call.state
    operands = [word for word in call.words[1:] if not _OPTIONS.fullmatch(word)]
    if not operands:
        home = state.variables.get("HOME", "~")
        return _to(call, home if isinstance(home, str) else HOLE)
    if len(operands) > 1 or (is_open(operands[0]) and not _is_plain_glob(state, operands[0])):
        return _moved(call, (None,))
    if operands[0] == "-":
        return _moved(call, state.previous or (None,))
    return _to(call, operands[0])


def _is_plain_glob(state: ShellState, target: str) -> bool:
    """Whether it only matches folders below: neither an option, nor `-` or `..`."""
    starts = [part[:1] for part in target.split("/")]
    return (
        HOLE not in target
        and starts[0] not in (*SIGNS, "-")
        and not any(part.startswith(".") and is_open(part) for part in target.split("/"))
        and "CDPATH" not in state.variables
        and "cdable_vars" not in state.options
    )


def _to(call: BuiltinCall, target: str) -> EvaluationOutcome:
    return _moved(call, _targets(call.state, target), target)


def _moved(call: BuiltinCall, found: Directories, target: str | None = None) -> EvaluationOutcome:
    """Records the command as a read of its target directory."""
    plain = limited([below(base, target) for base in call.state.directories]) if target else ()
    if target and found == plain:
        accesses: tuple[FileAccess, ...] = (FileAccess(target, "read"),)
        call.execution.note(call, accesses=accesses)
    else:
        paths = [HOLE if one is None else one or "." for one in found]
        accesses = tuple(FileAccess(path, "read") for path in paths)
        outside = call._replace(state=call.state.changed(directories=("",)))
        call.execution.note(outside, accesses=accesses)
    moved = call.state.moved(found)
    if WORKING & call.state.variables.keys():  # read-only: it moves, then fails
        return EvaluationOutcome(moved, join(call.state, moved))
    return EvaluationOutcome(moved, call.state)


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


def pushd(call: BuiltinCall) -> EvaluationOutcome:
    state = call.state
    operands = [word for word in call.words[1:] if word not in ("-n", "--", "-q")]
    if "-n" in call.words:
        call.execution.note(call)
        return either(state.changed(stack=None))
    if len(operands) != 1 or _ROTATES.fullmatch(operands[0]) or operands[0].startswith("-"):
        return _with_stack(_moved(call, (None,)), None)
    stack = (*state.stack, state.directories) if state.stack is not None else None
    return _with_stack(_to(call, operands[0]), stack)


def popd(call: BuiltinCall) -> EvaluationOutcome:
    state = call.state
    if "-n" in call.words:
        call.execution.note(call)
        return either(state.changed(stack=None))
    if len(call.words) > 1 or not state.stack:
        return _with_stack(_moved(call, (None,)), None)
    return _with_stack(_moved(call, state.stack[-1]), state.stack[:-1])


def _with_stack(
    outcome: EvaluationOutcome, stack: tuple[Directories, ...] | None
) -> EvaluationOutcome:
    moved = outcome.ok.changed(stack=stack) if outcome.ok else None
    return EvaluationOutcome(moved, outcome.failed)


def dirs(call: BuiltinCall) -> EvaluationOutcome:
    call.execution.note(call)
    return either(call.state.changed(stack=None) if "-c" in call.words else call.state)
