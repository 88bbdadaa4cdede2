"""Programs that run another program, and the command that each of them would run."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from bridle.core.permission.shell.script import HOLE, SIGNS, is_open, joined
from bridle.core.permission.shell.variables import HARMLESS

SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "rbash", "fish", "yash"})
# Each runs the rest of its words; of the options listed here the value is a word of its own, and
# so many words stand before the command.
_PREFIXES: dict[str, tuple[str, int]] = {
    "nohup": ("", 0),
    "setsid": ("", 0),
    "builtin": ("", 0),
    "chronic": ("", 0),
    "unbuffer": ("", 0),
    "caffeinate": ("-t -w", 0),
    "busybox": ("", 0),
    "toybox": ("", 0),
    "time": ("-f -o --format --output", 0),
    "nice": ("-n --adjustment", 0),
    "ionice": ("-c -n -p -P -u --class --classdata", 0),
    "stdbuf": ("-i -o -e --input --output --error", 0),
    "timeout": ("-k -s --kill-after --signal", 1),
    "gtimeout": ("-k -s --kill-after --signal", 1),
    "taskset": ("", 1),
    "chrt": ("-T -P -D", 1),
    "exec": ("-a", 0),
    "command": ("", 0),
    "strace": ("-a -b -e -E -I -o -O -p -P -s -S -u -U -X", 0),
    "ltrace": ("-a -A -e -F -l -n -o -p -s -u -w -x", 0),
    "hyperfine": ("-w -m -M -r -p -c -S -n -i", 0),
    "repeat": ("", 1),
    "-": ("", 0),
    "noglob": ("", 0),
    "nocorrect": ("", 0),
}
# Each runs another as somebody else, somewhere else, or later: it is judged as a whole.
_ELSEWHERE = frozenset({
    "sudo", "doas", "su", "pkexec", "runuser", "gosu", "su-exec", "chroot", "unshare", "nsenter",
    "setpriv", "capsh", "systemd-run", "fakeroot", "proot", "firejail", "bwrap", "xvfb-run",
    "dbus-run-session", "ssh", "mosh", "docker", "podman", "nerdctl", "kubectl", "lxc", "wsl",
    "machinectl", "vagrant", "toolbox", "distrobox", "flatpak", "snap", "nix-shell", "nix", "guix",
    "conda", "mamba", "poetry", "pipenv", "uv", "rye", "pdm", "hatch", "bundle", "direnv", "dotenv",
    "npx", "bunx", "pnpx", "uvx", "pipx", "mise", "asdf", "rustup", "op", "aws-vault", "chamber",
    "tmux", "screen", "at", "batch", "crontab", "parallel", "entr", "watchexec", "expect", "socat",
    "ip", "flock", "script", "watch", "git", "gdb", "lldb", "valgrind", "perf", "fd", "fdfind",
})  # fmt: skip
_NEVER_READ = frozenset({"parallel", "expect", "socat", "at", "batch", "crontab", "entr"})
_TAKES_SHELL = re.compile(r"\s")
_XARGS = "-I -n -P -L -s -d -E -a --arg-file --delimiter --max-args --max-procs --replace"
_EXECUTE = ("-exec", "-execdir", "-ok", "-okdir")


class Given(NamedTuple):
    """The standard input: its text, where it is known."""

    text: str | None = None
    piped: bool = False


class Layer(NamedTuple):
    """`inner`: what is run stands for it. `both`: each is judged. `whole`: it is judged as it
    stands, and what it runs only by rules that forbid."""

    words: Sequence[str] = ()
    scripts: Sequence[str] = ()  # for a shell
    doubts: Sequence[str] = ()
    others: Sequence[str] = ()
    judged: Literal["inner", "both", "whole"] = "inner"


def unwrap(words: Sequence[str], given: Given) -> Layer | None:
    """None for a program that runs no other, as far as its words tell."""
    if not words:
        return None
    program = posixpath.basename(words[0])
    if program in SHELLS:
        return _shell(words, given)
    if handler := _HANDLERS.get(program):
        return handler(words)
    if program in _PREFIXES:
        return _prefixed(words, *_PREFIXES[program])
    if program.startswith(("ld-linux", "ld.so", "ld-musl")):
        return Layer(words[1:], doubts=["a program is loaded by hand"])
    if program in _ELSEWHERE:
        return _elsewhere(words)
    return None


# -- shells ----------------------------------------------------------------------------------------


def _shell(words: Sequence[str], given: Given) -> Layer:
    at = 1
    while at < len(words) and words[at][:1] in "-+" and words[at] not in ("-", "--"):
        word = words[at]
        if is_open(word):
            return Layer(doubts=["options of a shell that are not known"])
        if not word.startswith("--") and "c" in word and word[0] == "-":
            rest = [one for one in words[at + 1 :] if one != "--"]
            while rest and rest[0][:1] in "-+" and len(rest) > 1:
                rest = rest[1:]
            return _script(rest[0]) if rest else Layer(doubts=["a shell without its -c"])
        if word in ("--rcfile", "--init-file"):
            return Layer(doubts=["a shell that reads another file first"])
        at += 2 if word in ("-o", "+o", "-O", "+O") else 1
    rest = [word for word in words[at:] if word not in ("-", "--")]
    reads = "-s" in words or not rest or rest[0] in ("/dev/stdin", "/proc/self/fd/0")
    if rest and is_open(rest[0]):
        return Layer(doubts=["a shell that runs what is not known"])
    if not reads:
        return Layer(judged="both")  # a file of commands
    if given.text is not None:
        return _script(given.text)
    return Layer(doubts=["a shell that runs what it is given"])


def _script(text: str) -> Layer:
    if is_open(text):
        return Layer(scripts=[text.replace(HOLE, "$_")], doubts=["commands made up as they run"])
    return Layer(scripts=[text])


def _eval(words: Sequence[str]) -> Layer:
    return _script(" ".join(word for word in words[1:] if word != "--"))


def _trap(words: Sequence[str]) -> Layer | None:
    rest = [word for word in words[1:] if word != "--"]
    if len(rest) < 2 or rest[0] in ("", "-") or rest[0].startswith("-"):
        return None
    return _script(rest[0])


def _source(words: Sequence[str]) -> Layer | None:
    if len(words) > 1 and not is_open(words[1]) and not words[1].startswith("/dev/"):
        return None
    return Layer(doubts=["commands read from what is not known"])


def _alias(words: Sequence[str]) -> Layer | None:
    defined = [word.partition("=")[2] for word in words[1:] if "=" in word]
    if not defined:
        return None
    return Layer(scripts=defined, doubts=["a name is given another meaning"], judged="both")


# -- what stands before a command ------------------------------------------------------------------


def _prefixed(words: Sequence[str], valued: str, skipped: int) -> Layer | None:
    at, doubts = _after_options(words, valued.split())
    if words[0] == "command" and any("v" in word.lower() for word in words[1:at]):
        return None  # it only tells which it is
    inner = words[at + skipped :]
    if words[0] in ("time", "strace", "ltrace") and any("o" in word for word in words[1:at]):
        doubts.append(f"{words[0]} writes a file of its own")
    if not inner:
        return Layer(doubts=doubts) if doubts else None
    return Layer(inner, doubts=doubts, others=_suffixes(words) if doubts else ())


def _after_options(words: Sequence[str], valued: Sequence[str]) -> tuple[int, list[str]]:
    at = 1
    doubts: list[str] = []
    while at < len(words) and (word := words[at]).startswith(("-", *SIGNS)):
        if word[0] in SIGNS:
            doubts.append(f"words of {words[0]} that are not known")
        if word == "--":
            return at + 1, doubts
        at += 1
        if word in valued:
            at += 1
    return at, doubts


def _env(words: Sequence[str]) -> Layer | None:
    doubts: list[str] = []
    at = 1
    while at < len(words):
        word = words[at]
        name, equals, _ = word.partition("=")
        if word in ("-u", "--unset", "-C", "--chdir", "-P"):
            at += 1
        elif word.startswith(("-S", "--split-string")):
            split = [word.removeprefix("-S").removeprefix("--split-string").lstrip("=")]
            split = [one for one in [*split, *words[at + 1 :]] if one]
            return Layer(scripts=[" ".join(split)], doubts=["env takes its words apart itself"])
        elif word == "--":
            pass
        elif equals and not word.startswith("-"):
            if not HARMLESS.fullmatch(name):
                doubts.append(f"{name} may change what the program does")
        elif not word.startswith("-"):
            break
        at += 1
    inner = words[at:]
    if inner and is_open(inner[0]):
        doubts.append("words of env that are not known")
    return Layer(inner, doubts=doubts) if inner else None


def _xargs(words: Sequence[str]) -> Layer | None:
    at, doubts = _after_options(words, _XARGS.split())
    inner = list(words[at:])
    if not inner:
        return None
    mark = "{}"
    for place, word in enumerate(words[:at]):
        if word == "-I" and place + 1 < at:
            mark = words[place + 1]
        elif word.startswith("-I"):
            mark = word[2:]
    filled = [word.replace(mark, HOLE) for word in inner]
    return Layer(filled if filled != inner else [*inner, HOLE], doubts=doubts)


def _find(words: Sequence[str]) -> Layer | None:
    """Each `-exec` up to its `;` or `+`; the first is the command, the others are scripts."""
    found: list[list[str]] = []
    collecting: list[str] | None = None
    for word in words[1:]:
        if collecting is not None:
            if word in (";", "+"):
                collecting = None
            else:
                collecting.append(word.replace("{}", HOLE))
        elif word in _EXECUTE:
            collecting = []
            found.append(collecting)
    doubts = []
    if any(word.startswith(HOLE) for word in words[1:]):
        doubts.append("words of find that are not known")
    if not any(found):
        return Layer(doubts=doubts, judged="both") if doubts else None
    first, *more = [one for one in found if one]
    scripts = [joined(one).replace(HOLE, "$_") for one in more]
    return Layer(first, scripts=scripts, doubts=doubts, judged="both")


# -- what runs a command somewhere else ------------------------------------------------------------


def _elsewhere(words: Sequence[str]) -> Layer:
    """Options of these are many: any of the words may begin the command that is run."""
    program = posixpath.basename(words[0])
    doubts = [f"{program} runs what cannot be read"] if program in _NEVER_READ else []
    scripts = [word for word in words[1:] if _TAKES_SHELL.search(word) and not is_open(word)]
    if program in ("ssh", "watch", "su", "flock", "script", "nix-shell"):
        scripts.append(" ".join(words[1:]).replace(HOLE, "$_"))
    if program == "git":
        return Layer(scripts=_of_git(words), others=(), judged="whole")
    inner: Sequence[str] = ()
    for at, word in enumerate(words[1:], 1):
        name = posixpath.basename(word)
        if name in SHELLS or name in _PREFIXES or name in _HANDLERS:
            inner = words[at:]
            break
    return Layer(inner, scripts, doubts, _suffixes(words), judged="whole")


def _of_git(words: Sequence[str]) -> list[str]:
    """Commands among the words of git: aliases, and what runs for each commit or module."""
    found = [word.partition("=!")[2] for word in words[1:] if "=!" in word]
    found += [word[1:] for word in words[1:] if word.startswith("!")]
    for at, word in enumerate(words[1:], 1):
        if word in ("-x", "--exec", "--extcmd", "foreach", "--tree-filter", "--index-filter"):
            found += words[at + 1 : at + 2]
        elif word == "run" and "bisect" in words[1:at]:
            found.append(joined(words[at + 1 :]))
        elif word.startswith(("--exec=", "--extcmd=")):
            found.append(word.partition("=")[2])
    return [one.replace(HOLE, "$_") for one in found if one]


def _suffixes(words: Sequence[str]) -> list[str]:
    return [joined(words[at:]) for at in range(1, min(len(words), 40))]


_HANDLERS: dict[str, Callable[[Sequence[str]], Layer | None]] = {
    "eval": _eval,
    "trap": _trap,
    ".": _source,
    "source": _source,
    "alias": _alias,
    "env": _env,
    "genv": _env,
    "xargs": _xargs,
    "gxargs": _xargs,
    "find": _find,
    "gfind": _find,
}
