"""Shell builtins that assign or test variables: declare, read, printf, unset and others."""

from __future__ import annotations

import re

from tillerman.core.permission.shell.builtin_scripts import run_later
from tillerman.core.permission.shell.command_execution import BuiltinCall
from tillerman.core.permission.shell.evaluation import EvaluationOutcome, either
from tillerman.core.permission.shell.expansion.arithmetic import is_code, is_number
from tillerman.core.permission.shell.expansion.word_expansion import WORKING
from tillerman.core.permission.shell.parsed_script import HOLE, is_open
from tillerman.core.permission.shell.shell_state import ShellState

_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_PAIR = re.compile(r"([A-Za-z_]\w*)(\[.*\])?\+?=(.*)", re.ASCII | re.DOTALL)


def declare(call: BuiltinCall) -> EvaluationOutcome:
    """declare, typeset, local, export, readonly."""
    execution, state = call.execution, call.state
    execution.note(call)
    name = call.words[0]
    options = [word for word in call.words[1:] if word[:1] in ("-", "+") and "=" not in word]
    flags = "".join(word[1:] for word in options)
    _check(call)
    if "n" in flags and name != "export":
        execution.shell.unread(f"{name} makes one name refer to another")
    pairs: list[tuple[str, object]] = [(one, value) for one, value, _ in call.assignments]
    assigned = {one for one, _ in pairs}
    for word in call.words[1:]:
        if (match := _PAIR.fullmatch(word)) and match[1] not in assigned:
            pairs.append((match[1], match[3] if match[2] is None else HOLE))
            if match[3].startswith("(") and (is_code(match[3]) or is_open(match[3])):
                execution.shell.unread(f"{name} expands a list once more")
        elif match is None and is_open(word):
            execution.shell.unread(f"{name} assigns to an unknown name")
        elif match is None and _NAME.fullmatch(word):
            if "i" in flags:
                execution.shell.arithmetic.count(word)
            if name == "local" and execution.shell.locals:
                execution.shell.locals[-1].add(word)
                state = state.assigned(word, HOLE)
            if name == "export" or "x" in flags:
                state = state.changed(exported=state.exported | {word})
            elif word in WORKING:  # a `cd` may fail to change it
                state = state.assigned(word, HOLE)
    for one, value in pairs:
        state = _declared(call, state, one, value, flags)
    return either(state)


def _declared(
    call: BuiltinCall, state: ShellState, name: str, value: object, flags: str
) -> ShellState:
    shell = call.execution.shell
    known = value if isinstance(value, str | tuple) else HOLE
    if set("iluAc") & set(flags):
        if "i" in flags:
            shell.arithmetic.count(name)
            if isinstance(known, str) and not is_number(known):
                shell.arithmetic.count(known)
        known = HOLE
    inside = call.words[0] in ("local", "declare", "typeset") and "g" not in flags
    if inside and shell.locals:
        shell.locals[-1].add(name)
    state = call.execution.assign(state, name, known)
    if isinstance(value, str) and set("iluAc") & set(flags):
        shell.arithmetic.assign(name, value)
    if call.words[0] == "export" or "x" in flags:
        state = state.changed(exported=state.exported | {name})
    return state


def unset(call: BuiltinCall) -> EvaluationOutcome:
    call.execution.note(call)
    _check(call)
    state = call.state
    functions = dict(state.functions)
    variables = dict(state.variables)
    for word in call.words[1:]:
        if word.startswith("-"):
            continue
        if is_open(word):
            call.execution.shell.unread("unset of an unknown name")
        if word in functions:
            functions[word] = (functions[word][0], False)
        if _NAME.fullmatch(word) and "-f" not in call.words:
            variables[word] = HOLE
    return either(state.changed(functions=functions, variables=variables))


def printf(call: BuiltinCall) -> EvaluationOutcome:
    call.execution.note(call)
    _check(call)
    return either(_unknown(call, call.words[1:3]))


def read(call: BuiltinCall) -> EvaluationOutcome:
    call.execution.note(call)
    _check(call)
    return either(_unknown(call, [*call.words[1:], "REPLY"]))


def getopts(call: BuiltinCall) -> EvaluationOutcome:
    call.execution.note(call)
    _check(call)
    return either(_unknown(call, [*call.words[2:3], "OPTARG", "OPTIND"]))


def wait(call: BuiltinCall) -> EvaluationOutcome:
    call.execution.note(call)
    _check(call)
    return either(_unknown(call, call.words[1:]))


def mapfile(call: BuiltinCall) -> EvaluationOutcome:
    call.execution.note(call)
    _check(call)
    state = _unknown(call, [*call.words[1:], "MAPFILE"])
    for at, word in enumerate(call.words[1:], 1):
        if word.startswith("-") and "C" in word:
            script = word.partition("C")[2] or (call.words[at + 1 : at + 2] or [""])[0]
            state = run_later(call._replace(state=state), f"{script} {HOLE}")
    return either(state)


def let(call: BuiltinCall) -> EvaluationOutcome:
    call.execution.note(call)
    _check(call)
    names: list[str] = []
    for word in call.words[1:]:
        call.execution.shell.arithmetic.count(word, computed=HOLE in word)
        names += _NAME.findall(word)
    return either(_unknown(call, names))


def test(call: BuiltinCall) -> EvaluationOutcome:
    call.execution.note(call)
    if "-v" in call.words or "-R" in call.words:
        _check(call)
    return either(call.state)


def _check(call: BuiltinCall) -> None:
    """Checks arguments with a subscript: it is evaluated wherever a name is accepted."""
    if any(is_code(word) and "[" in word for word in call.words[1:]):
        call.execution.shell.unread(f"{call.words[0]} may evaluate text as commands")
    for word in call.words[1:]:
        name, bracket, subscript = word.partition("[")
        if bracket and _NAME.fullmatch(name):
            call.execution.shell.arithmetic.count(subscript)


def _unknown(call: BuiltinCall, names: list[str]) -> ShellState:
    state = call.state
    for word in names:
        name = word.partition("[")[0]
        if is_open(word):
            call.execution.shell.unread(f"{call.words[0]} assigns to an unknown name")
        elif _NAME.fullmatch(name):
            made_up = call.words[0] != "getopts" and call.state.stdin.text is not None
            state = call.execution.assign(state, name, HOLE, made_up=made_up)
    return state
