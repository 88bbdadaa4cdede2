"""Shell builtins of bash and dash: how each changes the shell's state, and what it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

from tillerman.core.permission.shell import builtin_directories as directories
from tillerman.core.permission.shell import builtin_scripts as scripts
from tillerman.core.permission.shell import builtin_variables as variables
from tillerman.core.permission.shell.command_execution import BuiltinCall
from tillerman.core.permission.shell.evaluation import EvaluationOutcome, either
from tillerman.core.permission.shell.parsed_script import FileAccess, is_open
from tillerman.core.permission.shell.parsing.syntax import Dialect
from tillerman.core.permission.shell.programs.invocation import StdinSource
from tillerman.core.permission.shell.shell_state import UNKNOWN_ARGUMENTS, ShellState

Builtin = Callable[[BuiltinCall], EvaluationOutcome]

_SET_LETTERS = {"H": "histexpand", "a": "allexport"}
_SET_OPTIONS = frozenset("abefhkmnoptuvxBCEHPT")
_LISTINGS = ("-p", "-a", "-s", "-ps", "-as", "-pa")


def builtin(name: str, dialect: Dialect) -> Builtin | None:
    """The handler of a builtin; None if the name is a program in this dialect."""
    handler, dialects = BUILTINS.get(name, (None, ()))
    if dialect == "bash" or "posix" in dialects:
        return handler
    return _missing if "bash" in dialects or name in _KEYWORDS else None


def _missing(call: BuiltinCall) -> EvaluationOutcome:
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


def _exit(call: BuiltinCall) -> EvaluationOutcome:
    """`exit`: nothing after it runs, unless its arguments are wrong."""
    call.execution.note(call)
    if len(call.words) > 2 or any(map(is_open, call.words)):
        return either(call.state)
    return EvaluationOutcome(None, None)


def _jump(call: BuiltinCall) -> EvaluationOutcome:
    """`return`, `break`, `continue`: execution continues after the function or loop."""
    call.execution.note(call)
    call.execution.shell.escapes.append(call.state)
    return either(call.state)


def _set(call: BuiltinCall) -> EvaluationOutcome:
    call.execution.note(call)
    state = call.state
    rest = call.words[1:]
    options = set(state.options)
    unclear = any(map(is_open, rest))
    computed = False
    while rest and rest[0][:1] in ("-", "+") and rest[0] not in ("-", "--"):
        word, *rest = rest
        named = [name for letter, name in _SET_LETTERS.items() if letter in word]
        count = word.count("o")  # also combined with other letters
        named += rest[:count]
        computed |= any(map(is_open, (word, *rest[:count])))
        unclear |= not set(word[1:]) <= _SET_OPTIONS or any(one[:1] in "-+" for one in rest[:count])
        del rest[:count]
        options = options | set(named) if word[0] == "-" else options - set(named)
    if computed or (rest and is_open(rest[0][:1])):
        call.execution.shell.unread("set may enable any option")
    state = _with_options(call, options)
    if unclear:
        return either(state.changed(positional=UNKNOWN_ARGUMENTS))
    if rest:
        given = rest[1:] if rest[0] in ("-", "--") else rest
        if given or rest[0] == "--":
            call.execution.shell.arithmetic.assign("@", " ".join(given) or "0")
            state = state.changed(positional=tuple(given))
    return either(state)


def _with_options(call: BuiltinCall, options: Iterable[str]) -> ShellState:
    """The state with these options of `set -o` and of `shopt`."""
    options = frozenset(options)
    if "histexpand" in options - call.state.options:
        call.execution.shell.unread("history expansion may insert commands")
    return call.state.changed(options=options)


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
    """`-o` means the options of `set -o`."""
    call.execution.note(call)
    flags = {letter for word in call.words[1:] if word.startswith("-") for letter in word[1:]}
    names = {word for word in call.words[1:] if not word.startswith("-")}
    options = call.state.options
    if any(map(is_open, call.words[1:])):
        options |= {"dotglob", "extglob", "globstar", "cdable_vars", "histexpand"}
    elif "s" in flags:
        options |= names
    elif "u" in flags:
        options -= names
    return either(_with_options(call, options))


def _hash(call: BuiltinCall) -> EvaluationOutcome:
    call.execution.note(call)
    if any("p" in word or is_open(word) for word in call.words[1:] if word[:1] != "/"):
        flags = [word for word in call.words[1:] if word.startswith("-") or is_open(word)]
        if any("p" in flag or is_open(flag) for flag in flags):
            call.execution.shell.unread("hash changes which program runs")
    return either(call.state)


def _enable(call: BuiltinCall) -> EvaluationOutcome:
    call.execution.note(call)
    if any(word not in _LISTINGS for word in call.words[1:]):
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
        match call.state.variables.get("HISTFILE"):
            case None:
                files = ["~/.bash_history", "~/.history"]
            case str() as path:
                files = [path]
            case elements:  # an array: its first one
                files = list(elements[:1])
    accesses = [FileAccess(word, kind) for word in files if set("wanr") & set(flags)]
    call.execution.note(call, "writes" if accesses else "none", tuple(accesses))
    return either(call.state)


def _fc(call: BuiltinCall) -> EvaluationOutcome:
    call.execution.note(call)
    first = call.words[1] if len(call.words) > 1 else ""
    if not (first.startswith("-") and "l" in first.partition("e")[0]):  # -el: the editor `l`
        call.execution.shell.unread("fc runs commands of the history")
    return either(call.state)


_BOTH: tuple[Dialect, ...] = ("bash", "posix")
_BASH: tuple[Dialect, ...] = ("bash",)
_POSIX: tuple[Dialect, ...] = ("posix",)
_OTHER: tuple[Dialect, ...] = ()  # zsh and others, read as bash
BUILTINS: dict[str, tuple[Builtin, tuple[Dialect, ...]]] = {
    "bg": (_harmless, _BOTH),
    "fg": (_harmless, _BOTH),
    "times": (_harmless, _BOTH),
    "type": (_harmless, _BOTH),
    "ulimit": (_harmless, _BOTH),
    "umask": (_harmless, _BOTH),
    "unalias": (_harmless, _BOTH),
    ":": (_true, _BOTH),
    "true": (_true, _BOTH),
    "false": (_false, _BOTH),
    "echo": (_echo, _BOTH),
    "printf": (_printf, _BOTH),
    "pwd": (_pwd, _BOTH),
    "kill": (_kill, _BOTH),
    "exit": (_exit, _BOTH),
    "return": (_jump, _BOTH),
    "break": (_jump, _BOTH),
    "continue": (_jump, _BOTH),
    "set": (_set, _BOTH),
    "shift": (_shift, _BOTH),
    "hash": (_hash, _BOTH),
    "cd": (directories.cd, _BOTH),
    "eval": (scripts.evaluate, _BOTH),
    ".": (scripts.source, _BOTH),
    "trap": (scripts.trap, _BOTH),
    "alias": (scripts.alias, _BOTH),
    "command": (scripts.command, _BOTH),
    "exec": (scripts.execute, _BOTH),
    "jobs": (scripts.jobs, _BOTH),
    "local": (variables.declare, _BOTH),
    "export": (variables.declare, _BOTH),
    "readonly": (variables.declare, _BOTH),
    "unset": (variables.unset, _BOTH),
    "read": (variables.read, _BOTH),
    "getopts": (variables.getopts, _BOTH),
    "test": (variables.test, _BOTH),
    "[": (variables.test, _BOTH),
    "wait": (variables.wait, _BOTH),
    "caller": (_harmless, _BASH),
    "compopt": (_harmless, _BASH),
    "disown": (_harmless, _BASH),
    "help": (_harmless, _BASH),
    "suspend": (_harmless, _BASH),
    "logout": (_harmless, _BASH),
    "shopt": (_shopt, _BASH),
    "enable": (_enable, _BASH),
    "bind": (_bind, _BASH),
    "history": (_history, _BASH),
    "fc": (_fc, _BASH),
    "pushd": (directories.pushd, _BASH),
    "popd": (directories.popd, _BASH),
    "dirs": (directories.dirs, _BASH),
    "source": (scripts.source, _BASH),
    "builtin": (scripts.builtin, _BASH),
    "complete": (scripts.complete, _BASH),
    "compgen": (scripts.complete, _BASH),
    "declare": (variables.declare, _BASH),
    "typeset": (variables.declare, _BASH),
    "mapfile": (variables.mapfile, _BASH),
    "readarray": (variables.mapfile, _BASH),
    "let": (variables.let, _BASH),
    "chdir": (directories.cd, _POSIX),
    "noglob": (scripts.prefix, _OTHER),
    "nocorrect": (scripts.prefix, _OTHER),
    "-": (scripts.prefix, _OTHER),
    "repeat": (scripts.repeat, _OTHER),
}
_KEYWORDS = frozenset({"[[", "]]", "function", "select", "coproc"})  # bash only
