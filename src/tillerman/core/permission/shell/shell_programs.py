"""Parses calls of shells as programs (`bash -c`): the commands that each is given."""

from __future__ import annotations

import posixpath
import re
from typing import NamedTuple

from tillerman.core.permission.shell.parsed_script import HOLE, is_open
from tillerman.core.permission.shell.parsing.syntax import Dialect
from tillerman.core.permission.shell.shell_state import (
    UNKNOWN_ARGUMENTS,
    Directories,
    ShellState,
    below,
)

_POSIX: tuple[Dialect, ...] = ("posix",)
_BASH: tuple[Dialect, ...] = ("bash",)
SHELLS: dict[str, tuple[Dialect, ...]] = {
    "sh": ("bash", "posix"), "bash": _BASH, "rbash": _BASH, "zsh": _BASH, "ksh": _BASH,
    "mksh": _BASH, "oksh": _BASH, "lksh": _BASH, "fish": _BASH, "dash": _POSIX, "ash": _POSIX,
    "yash": _POSIX, "posh": _POSIX, "static-sh": _POSIX,
}  # fmt: skip
_LONG = frozenset({
    "login", "noediting", "noprofile", "norc", "posix", "restricted", "verbose", "version", "help",
})  # fmt: skip
STARTING = ("BASH_ENV", "ENV")  # variables that name files which a shell reads first
_STDIN = re.compile(r"/dev/(stdin|fd/0)|/proc/(self|thread-self|\d+)/(task/\d+/)?fd/0")
_NO_FILE = ("/dev/", "/proc/")


class ShellCall(NamedTuple):
    """A call with `script` or `file`; neither if that is known only at run time."""

    script: str | None = None
    file: str | None = None
    options: frozenset[str] = frozenset()
    positional: tuple[str, ...] = ()
    dialects: tuple[Dialect, ...] = _BASH
    doubts: tuple[str, ...] = ()
    from_stdin: bool = False
    first: tuple[str, ...] = ()  # script files that it reads before
    interactive: bool = False
    startup: tuple[str, ...] = ()  # startup files that it reads by itself, if they exist


def shell_call(words: list[str], state: ShellState) -> ShellCall:
    at, letters = 1, ""
    doubts: list[str] = []
    names: set[str] = set()
    first = [_value(state, name) for name in STARTING if name in state.variables]
    while at < len(words) and words[at].startswith(("-", "+")) and words[at] not in ("-", "--"):
        word = words[at]
        at += 1
        if is_open(word):
            return ShellCall(doubts=("unknown options of a shell",))
        if word.startswith("--") or word.lstrip("-") in _LONG:
            if word.lstrip("-") in ("rcfile", "init-file"):
                first += words[at : at + 1]
                at += 1
                doubts.append("a shell that reads a file first")
            elif word.lstrip("-") not in _LONG:
                return ShellCall(doubts=("an unknown option of a shell",))
            names.add(word.lstrip("-"))
            continue
        letters += word[1:]
        takes = word.count("o") + word.count("O")
        if (takes and (takes > 1 or word[-1] not in "oO")) or (word[0] == "+" and "c" in word):
            doubts.append("options that shells interpret differently")
        names.update(words[at : at + takes])
        at += takes
    if any(map(is_open, names)):
        doubts.append("unknown options of a shell")
        names |= {"dotglob", "extglob", "globstar"}
    if "i" in letters or "l" in letters:
        names.add("expand_aliases")
    rest = words[at:]
    if rest[:1] in (["-"], ["--"]):
        rest = rest[1:]
    found = ShellCall(
        options=frozenset(names),
        dialects=_dialects(words[0], names, state),
        doubts=tuple(doubts),
        first=tuple(first),
        interactive="i" in letters,
        startup=_startup_files(words, letters, state),
    )
    if posixpath.basename(words[0]) == "fish":
        found = found._replace(doubts=(*found.doubts, "fish has its own syntax"))
    if "c" in letters:
        if not rest:
            return found._replace(doubts=("a shell without its -c",))
        return found._replace(script=rest[0], positional=_arguments(rest[2:]))
    if rest and "s" not in letters:
        return _file(rest, found, state)
    return _stdin(found._replace(positional=_arguments(rest)), state)


def _dialects(program: str, names: set[str], state: ShellState) -> tuple[Dialect, ...]:
    """Bash in its POSIX mode reads some words as other shells do, such as `time -p`."""
    dialects = SHELLS[posixpath.basename(program)]
    posix = "posix" in names or state.may_be_posix
    return tuple(dict.fromkeys((*dialects, "posix"))) if posix and dialects == _BASH else dialects


def _startup_files(words: list[str], letters: str, state: ShellState) -> tuple[str, ...]:
    """Startup files in its home directory, of an interactive shell or a login shell."""
    home = _value(state, "HOME") if "HOME" in state.variables else "~"
    names: list[str] = []
    if posixpath.basename(words[0]) == "zsh":
        home = _value(state, "ZDOTDIR") if "ZDOTDIR" in state.variables else home
        names += [".zshenv", ".zprofile", ".zshrc", ".zlogin", ".zlogout"]
    if "l" in letters or "--login" in words or "-login" in words:
        names += [".bash_profile", ".bash_login", ".profile", ".bash_logout"]
    if "i" in letters or "s" in letters or "l" in letters:
        names += [".bashrc", ".mkshrc", ".kshrc", ".config/fish/config.fish"]
    return tuple(f"{home}/{name}" for name in names)


def _value(state: ShellState, name: str) -> str:
    value = state.variables[name]
    return value if isinstance(value, str) else HOLE


def _file(rest: list[str], found: ShellCall, state: ShellState) -> ShellCall:
    path = rest[0]
    if is_open(path):
        return found._replace(doubts=(*found.doubts, "a shell that runs unknown commands"))
    if is_stdin(path, state.directories):
        return _stdin(found._replace(positional=_arguments(rest[1:])), state)
    if may_be_device(path, state.directories):
        return found._replace(doubts=(*found.doubts, "a shell that runs its input"))
    return found._replace(file=path)


def _stdin(found: ShellCall, state: ShellState) -> ShellCall:
    text = state.stdin.text
    if text is None:
        return found._replace(doubts=(*found.doubts, "a shell that runs its input"))
    doubts = found.doubts
    if not state.stdin.certain:
        doubts = (*doubts, "commands computed at run time")
    return found._replace(script=text, doubts=doubts, from_stdin=True)


def _arguments(words: list[str]) -> tuple[str, ...]:
    return UNKNOWN_ARGUMENTS if any(map(is_open, words)) else tuple(words)


def is_stdin(path: str, directories: Directories) -> bool:
    """Whether the path is the standard input, in any spelling."""
    found = [below(base, path) for base in directories]
    return any(one is not None and _STDIN.fullmatch(_normal(one)) for one in found)


def may_be_device(path: str, directories: Directories) -> bool:
    """Whether it may be a descriptor of a process instead of a file."""
    found = [below(base, path) for base in directories]
    return any(one is not None and _normal(one).startswith(_NO_FILE) for one in found)


def _normal(path: str) -> str:
    return "/" + posixpath.normpath(path).lstrip("/") if path.startswith("/") else path
