"""Shell builtins of bash and dash: how each changes the shell's state, and what it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from tillerman.core.permission.shell import builtin_directories as directories
from tillerman.core.permission.shell import builtin_scripts as scripts
from tillerman.core.permission.shell import builtin_variables as variables
from tillerman.core.permission.shell.command_execution import BuiltinCall
from tillerman.core.permission.shell.evaluation import EvaluationOutcome, either
from tillerman.core.permission.shell.parsed_script import FileAccess, is_open
from tillerman.core.permission.shell.parsing.syntax import Dialect
from tillerman.core.permission.shell.programs.invocation import StdinSource
from tillerman.core.permission.shell.shell_state import UNKNOWN_ARGUMENTS

Builtin = Callable[[BuiltinCall], EvaluationOutcome]

_LETTERS = {"H": "histexpand", "a": "allexport"}  # options of `set`
_LISTS = ("-p", "-a", "-s", "-ps", "-as", "-pa")


def builtin(name: str, dialect: Dialect) -> Builtin | None:
    """The handler of a builtin; None if the name is a program in this dialect."""
    if dialect == "posix" and name not in DASH:
        return _absent if name in BASH or name in _KEYWORDS else None
    return _TABLE.get(name) if name in BASH or name in DASH or name in _ELSEWHERE else None


def _absent(call: BuiltinCall) -> EvaluationOutcome:
    """A builtin of bash that this shell lacks: there is no such program either."""
    return either(call.state)


def _harmless(call: BuiltinCall) -> EvaluationOutcome:
    call.execution.note(call)
    return either(call.state)


def _true(call: BuiltinCall) -> EvaluationOutcome:
    call.execution.note(call)
    return EvaluationOutcome(call.state, None)


def _false(call: BuiltinCall) -> EvaluationOutcome:
    call.execution.note(call)
    return EvaluationOutcome(None, call.state)


def _echo(call: BuiltinCall) -> EvaluationOutcome:
    """Records its output without options; shells differ in how they treat a backslash."""
    call.execution.note(call)
    words = call.words[1:]
    while words and words[0][:1] == "-" and words[0][1:] and not words[0][1:].strip("neE"):
        words = words[1:]
    text = " ".join(words) + "\n"
    certain = not is_open(text) and "\\" not in text and len(words) == len(call.words) - 1
    call.execution.shell.printed = StdinSource(text, certain)
    return either(call.state)


def _pwd(call: BuiltinCall) -> EvaluationOutcome:
    """Prints the current directory, whatever PWD contains."""
    call.execution.note(call)
    path = call.state.path_of(call.state.directories)
    if path is not None and all(word in ("-L", "-P") for word in call.words[1:]):
        call.execution.shell.printed = StdinSource(path + "\n")
    return either(call.state)


def _printf(call: BuiltinCall) -> EvaluationOutcome:
    if call.words[1:2] == ["-v"] or any(word.startswith("-v") for word in call.words[1:2]):
        return variables.printf(call)
    call.execution.note(call)
    rest = call.words[2:] if call.words[1:2] == ["--"] else call.words[1:]
    known = rest and not any(c in rest[0] for c in "\\%") and not is_open(rest[0])
    text = rest[0] if known else " ".join(rest).replace("\\n", "\n").replace("\\t", "\t")
    if not known and rest and rest[0] in ("%s", "%s\\n", "%s\n"):
        text = "\n".join(rest[1:]) + "\n"
        known = not is_open(text)
    call.execution.shell.printed = StdinSource(text, certain=bool(known))
    return either(call.state)


def _kill(call: BuiltinCall) -> EvaluationOutcome:
    call.execution.note(call, "runs")
    return either(call.state)


def _leave(call: BuiltinCall) -> EvaluationOutcome:
    """`exit`: nothing after it runs, unless its arguments are wrong."""
    call.execution.note(call)
    if len(call.words) > 2 or any(map(is_open, call.words)):
        return either(call.state)
    return EvaluationOutcome(None, None)


def _escape(call: BuiltinCall) -> EvaluationOutcome:
    """`return`, `break`, `continue`: execution continues after the function or loop."""
    call.execution.note(call)
    call.execution.shell.escapes.append(call.state)
    return either(call.state)


def _set(call: BuiltinCall) -> EvaluationOutcome:
    call.execution.note(call)
    state = call.state
    rest = call.words[1:]
    options = set(state.options)
    while rest and rest[0][:1] in ("-", "+") and rest[0] not in ("-", "--"):
        word, *rest = rest
        named = [name for letter, name in _LETTERS.items() if letter in word]
        count = word.count("o")  # also combined with other letters
        named += rest[:count]
        del rest[:count]
        options = options | set(named) if word[0] == "-" else options - set(named)
    if "histexpand" in options - state.options:
        call.execution.shell.unread("history expansion may insert commands")
    if any(map(is_open, call.words[1:])):
        return either(state.changed(positional=UNKNOWN_ARGUMENTS, options=frozenset(options)))
    state = state.changed(options=frozenset(options))
    if "--" in call.words or rest:
        given = rest[1:] if rest[:1] == ["--"] else rest
        call.execution.shell.arithmetic.assign("@", " ".join(given) or "0")
        state = state.changed(positional=tuple(given))
    return either(state)


def _shift(call: BuiltinCall) -> EvaluationOutcome:
    call.execution.note(call)
    given = call.state.positional
    if given is None:
        return either(call.state)
    count = call.words[1] if len(call.words) > 1 else "1"
    if not count.isdigit() or len(count) > 5 or any(map(is_open, given[: int(count)])):
        return either(call.state.changed(positional=UNKNOWN_ARGUMENTS))
    if int(count) > len(given):
        return either(call.state)  # an error, which changes nothing
    return either(call.state.changed(positional=given[int(count) :]))


def _shopt(call: BuiltinCall) -> EvaluationOutcome:
    call.execution.note(call)
    flags = [word for word in call.words[1:] if word.startswith("-")]
    names = [word for word in call.words[1:] if not word.startswith("-")]
    state = call.state
    if any(map(is_open, call.words[1:])):
        names = ["dotglob", "extglob", "globstar", "cdable_vars"]
        return either(state.changed(options=state.options | set(names)))
    if any("s" in flag for flag in flags):
        return either(state.changed(options=state.options | set(names)))
    if any("u" in flag for flag in flags):
        return either(state.changed(options=state.options - set(names)))
    return either(state)


def _hash(call: BuiltinCall) -> EvaluationOutcome:
    call.execution.note(call)
    if any("p" in word or is_open(word) for word in call.words[1:] if word[:1] != "/"):
        flags = [word for word in call.words[1:] if word.startswith("-") or is_open(word)]
        if any("p" in flag or is_open(flag) for flag in flags):
            call.execution.shell.unread("hash changes which program runs")
    return either(call.state)


def _enable(call: BuiltinCall) -> EvaluationOutcome:
    call.execution.note(call)
    if any(word not in _LISTS for word in call.words[1:]):
        call.execution.shell.unread("enable changes which command runs")
    return either(call.state)


def _bind(call: BuiltinCall) -> EvaluationOutcome:
    call.execution.note(call)
    if any(word.strip("-lpPsSvVX") for word in call.words[1:]):
        call.execution.shell.unread("bind makes keys run commands")
    return either(call.state)


def _history(call: BuiltinCall) -> EvaluationOutcome:
    """`-w` and `-a` write the named file, or HISTFILE."""
    flags = "".join(word[1:] for word in call.words[1:] if word.startswith("-"))
    kind: Literal["read", "write"] = "write" if set("wa") & set(flags) else "read"
    files = [word for word in call.words[1:] if not word.startswith("-")]
    if not files:
        value = call.state.variables.get("HISTFILE")
        files = ["~/.bash_history", "~/.history"] if value is None else [str(value)]
    accesses = [FileAccess(word, kind) for word in files if set("wanr") & set(flags)]
    call.execution.note(call, "writes" if accesses else "none", tuple(accesses))
    return either(call.state)


def _fc(call: BuiltinCall) -> EvaluationOutcome:
    call.execution.note(call)
    if not any(word.startswith("-") and "l" in word for word in call.words[1:2]):
        call.execution.shell.unread("fc runs commands of the history")
    return either(call.state)


_NONE = (
    "bg", "caller", "compopt", "disown", "fg", "help", "suspend", "times", "type", "ulimit",
    "umask", "logout", "unalias",
)  # fmt: skip
_TABLE: dict[str, Builtin] = {
    **dict.fromkeys(_NONE, _harmless),
    ":": _true,
    "true": _true,
    "false": _false,
    "echo": _echo,
    "printf": _printf,
    "pwd": _pwd,
    "kill": _kill,
    "exit": _leave,
    "return": _escape,
    "break": _escape,
    "continue": _escape,
    "set": _set,
    "shift": _shift,
    "shopt": _shopt,
    "hash": _hash,
    "enable": _enable,
    "bind": _bind,
    "history": _history,
    "fc": _fc,
    "cd": directories.cd,
    "chdir": directories.cd,
    "pushd": directories.pushd,
    "popd": directories.popd,
    "dirs": directories.dirs,
    "eval": scripts.evaluate,
    ".": scripts.source,
    "source": scripts.source,
    "trap": scripts.trap,
    "alias": scripts.alias,
    "command": scripts.command,
    "builtin": scripts.builtin,
    "exec": scripts.execute,
    "jobs": scripts.jobs,
    "complete": scripts.complete,
    "compgen": scripts.complete,
    "noglob": scripts.prefix,
    "nocorrect": scripts.prefix,
    "-": scripts.prefix,
    "repeat": scripts.repeat,
    "declare": variables.declare,
    "typeset": variables.declare,
    "local": variables.declare,
    "export": variables.declare,
    "readonly": variables.declare,
    "unset": variables.unset,
    "read": variables.read,
    "mapfile": variables.mapfile,
    "readarray": variables.mapfile,
    "getopts": variables.getopts,
    "let": variables.let,
    "test": variables.test,
    "[": variables.test,
    "wait": variables.wait,
}  # fmt: skip
BASH = frozenset({
    ".", ":", "[", "alias", "bg", "bind", "break", "builtin", "caller", "cd", "command", "compgen",
    "complete", "compopt", "continue", "declare", "dirs", "disown", "echo", "enable", "eval",
    "exec", "exit", "export", "false", "fc", "fg", "getopts", "hash", "help", "history", "jobs",
    "kill", "let", "local", "logout", "mapfile", "popd", "printf", "pushd", "pwd", "read",
    "readarray", "readonly", "return", "set", "shift", "shopt", "source", "suspend", "test",
    "times", "trap", "true", "type", "typeset", "ulimit", "umask", "unalias", "unset", "wait",
})  # fmt: skip
DASH = frozenset({
    ".", ":", "[", "alias", "bg", "break", "cd", "chdir", "command", "continue", "echo", "eval",
    "exec", "exit", "export", "false", "fg", "getopts", "hash", "jobs", "kill", "local", "printf",
    "pwd", "read", "readonly", "return", "set", "shift", "test", "times", "trap", "true", "type",
    "ulimit", "umask", "unalias", "unset", "wait",
})  # fmt: skip
_KEYWORDS = frozenset({"[[", "]]", "function", "select", "coproc"})  # bash only
_ELSEWHERE = frozenset({"noglob", "nocorrect", "-", "repeat", "chdir"})  # zsh and others
