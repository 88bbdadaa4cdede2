"""Programs that run another program, and the command that each of them would run."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from bridle.core.permission.shell.files import writes_files
from bridle.core.permission.shell.inputs import Given
from bridle.core.permission.shell.script import HOLE, SIGNS, is_open, joined
from bridle.core.permission.shell.variables import HARMLESS

SHELLS = frozenset({
    "sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "rbash", "fish", "yash", "oksh", "lksh",
    "posh", "static-sh",
})  # fmt: skip


_SHELL_LONG = frozenset({
    "login", "noediting", "noprofile", "norc", "posix", "restricted", "verbose", "version", "help",
})  # fmt: skip
_STDIN = ("/dev/stdin", "/dev/fd/0", "/proc/self/fd/0")
_NOT_FILES = ("/dev/", "/proc/")


class _Options(NamedTuple):
    """Letters, and long ones; `valued` take a value. Others make it unclear where they end."""

    flags: str = ""
    valued: str = ""
    attached: str = ""  # letters that take what follows in the same word, if anything
    skipped: int = 0  # words between the options and the command


_TIMEOUT = _Options(
    "fpv --foreground --preserve-status --verbose", "ks --kill-after --signal", skipped=1
)
_XARGS = _Options(
    "0rtpxo --null --no-run-if-empty --verbose --interactive --exit --open-tty",
    "InPLsdEa --arg-file --delimiter --max-args --max-procs --max-lines --max-chars --replace",
    "ile",
)
# Each runs the rest of its words.
_PREFIXES: dict[str, _Options] = {
    "nohup": _Options(),
    "builtin": _Options(),
    "noglob": _Options(),
    "nocorrect": _Options(),
    "-": _Options(),
    "busybox": _Options(),
    "toybox": _Options(),
    "repeat": _Options(skipped=1),
    "setsid": _Options("cfw --ctty --fork --wait"),
    "exec": _Options("cl", "a"),
    "command": _Options("pvV"),
    "time": _Options("pvaq --portability --verbose --append --quiet", "fo --format --output"),
    "nice": _Options("0123456789", "n --adjustment"),
    "ionice": _Options("t --ignore", "cnpPu --class --classdata --pid"),
    "stdbuf": _Options("", "ioe --input --output --error"),
    "timeout": _TIMEOUT,
    "gtimeout": _TIMEOUT,
}
# Each runs another as somebody else, somewhere else, or later: it is judged as a whole.
_ELSEWHERE = frozenset({
    "csh", "tcsh", "rc", "elvish", "nu", "xonsh", "sash", "start-stop-daemon", "faketime", "runcon",
    "catchsegv", "newgrp", "run-parts", "m4", "dc",
    "sudo", "doas", "su", "pkexec", "runuser", "gosu", "su-exec", "chroot", "unshare", "nsenter",
    "setpriv", "capsh", "systemd-run", "fakeroot", "proot", "firejail", "bwrap", "xvfb-run",
    "dbus-run-session", "ssh", "mosh", "docker", "podman", "nerdctl", "kubectl", "lxc", "wsl",
    "machinectl", "vagrant", "toolbox", "distrobox", "flatpak", "snap", "nix-shell", "nix", "guix",
    "conda", "mamba", "poetry", "pipenv", "uv", "rye", "pdm", "hatch", "bundle", "direnv", "dotenv",
    "npx", "bunx", "pnpx", "uvx", "pipx", "mise", "asdf", "rustup", "op", "aws-vault", "chamber",
    "tmux", "screen", "at", "batch", "crontab", "parallel", "entr", "watchexec", "expect", "socat",
    "ip", "flock", "script", "watch", "git", "gdb", "lldb", "valgrind", "perf", "fd", "fdfind",
    "setarch", "linux32", "linux64", "x86_64", "i386", "prlimit", "choom", "ssh-agent", "sg",
    "strace", "ltrace", "hyperfine", "taskset", "chrt", "caffeinate", "unbuffer", "chronic",
})  # fmt: skip
_SHELL_C = frozenset({"ssh", "watch", "su", "flock", "script", "nix-shell", "sg"})
_FAR = frozenset({
    "ssh", "mosh", "docker", "podman", "nerdctl", "kubectl", "lxc", "wsl", "machinectl", "vagrant",
    "chroot", "ip", "gdb", "lldb", "fd", "fdfind",
})  # fmt: skip
_NEVER_READ = frozenset({
    "csh", "tcsh", "rc", "elvish", "nu", "xonsh", "sash", "run-parts", "m4", "dc", "parallel",
    "expect", "socat", "at", "batch", "crontab", "entr",
})  # fmt: skip
_LONGEST = 10_000  # characters of a command that may begin at any of its words
_TAKES_SHELL = re.compile(r"\s")
_EXECUTE = ("-exec", "-execdir", "-ok", "-okdir")


class Layer(NamedTuple):
    """`inner`: what is run stands for it. `both`: each is judged. `whole`: it is judged as it
    stands, and what it runs only by rules that forbid."""

    words: Sequence[str] = ()
    scripts: Sequence[str] = ()  # for a shell
    doubts: Sequence[str] = ()
    others: Sequence[str] = ()
    judged: Literal["inner", "both", "whole"] = "inner"
    folder: str | None = None  # that it moves to first


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
        return _prefixed(words, _PREFIXES[program])
    if program.startswith(("ld-linux", "ld.so", "ld-musl")):
        return Layer(words[1:], doubts=["a program is loaded by hand"])
    if program in _ELSEWHERE:
        return _elsewhere(words)
    return None


# -- shells ----------------------------------------------------------------------------------------


def _shell(words: Sequence[str], given: Given) -> Layer:
    at, letters = 1, ""
    doubts: list[str] = []
    while at < len(words) and words[at].startswith(("-", "+")) and words[at] not in ("-", "--"):
        word = words[at]
        at += 1
        if is_open(word):
            return Layer(doubts=["options of a shell that are not known"])
        if word.startswith("--") or word.lstrip("-") in _SHELL_LONG:
            if word.lstrip("-") not in _SHELL_LONG:
                return Layer(doubts=["an option of a shell that is not known"])
            continue
        letters += word[1:]
        takes = word.count("o") + word.count("O")
        if (takes and (takes > 1 or word[-1] not in "oO")) or (word[0] == "+" and "c" in word):
            doubts.append("options of a shell that shells read in different ways")
        at += takes  # the name of an option each
    rest = list(words[at:])
    if rest[:1] in (["-"], ["--"]):
        rest = rest[1:]
    if "c" in letters:
        layer = _script(rest[0]) if rest else Layer(doubts=["a shell without its -c"])
        return layer._replace(doubts=[*doubts, *layer.doubts])
    if rest and is_open(rest[0]):
        return Layer(doubts=["a shell that runs what is not known"])
    if rest and rest[0] not in _STDIN and rest[0].startswith(_NOT_FILES):
        return Layer(doubts=["a shell that runs what it is given"])
    if rest and "s" not in letters and rest[0] not in _STDIN:
        return Layer(judged="both", doubts=doubts)  # a file of commands
    if given.text is not None:
        layer = _script(given.text, sure=given.sure)
        return layer._replace(doubts=[*doubts, *layer.doubts])
    return Layer(doubts=["a shell that runs what it is given"])


def _script(text: str, *, sure: bool = True) -> Layer:
    if is_open(text) or not sure:
        return Layer(scripts=[text.replace(HOLE, "$_")], doubts=["commands made up as they run"])
    return Layer(scripts=[text])


def _eval(words: Sequence[str]) -> Layer:
    return _script(" ".join(word for word in words[1:] if word != "--"))


def _trap(words: Sequence[str]) -> Layer | None:
    rest = [word for word in words[1:] if word != "--"]
    if len(rest) < 2 or rest[0] in ("", "-") or rest[0].startswith("-"):
        return None
    return _script(rest[0])._replace(folder=HOLE)  # it runs later


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


def _prefixed(words: Sequence[str], options: _Options) -> Layer | None:
    at, doubts = _after_options(words, options)
    given = words[1:at]
    if words[0] == "command" and any("v" in word.lower() for word in given):
        return None  # it only tells which it is
    inner = words[at + options.skipped :]
    if words[0] == "time" and any("o" in word for word in given):
        doubts.append("time writes a file of its own")
    if not inner:
        return Layer(doubts=doubts) if doubts else None
    return Layer(inner, doubts=doubts, others=_suffixes(words) if doubts else ())


def _after_options(words: Sequence[str], options: _Options) -> tuple[int, list[str]]:
    """Where the options end, as getopt would have it."""
    flags, valued = options.flags.split(), options.valued.split()
    at = 1
    while at < len(words) and (word := words[at]).startswith(("-", *SIGNS)) and word != "-":
        at += 1
        if word == "--":
            return at, []
        name, equals, _ = word.partition("=")
        if word[0] in SIGNS:
            return at, [f"words of {words[0]} that are not known"]
        if not word.startswith("--"):
            takes = _cluster(word[1:], options)
        elif name in flags or name in valued:
            takes = int(name in valued and not equals)
        else:
            takes = None
        if takes is None:
            return at, [f"an option of {words[0]} that is not known"]
        at += takes
    return at, []


def _cluster(letters: str, options: _Options) -> int | None:
    """How many further words it takes; None if a letter is not known."""
    for place, letter in enumerate(letters, 1):
        if letter in options.valued.split(" ")[0]:
            return int(place == len(letters))
        if letter in options.attached:
            return 0
        if letter not in options.flags.split(" ")[0]:
            return None
    return 0


def _env(words: Sequence[str]) -> Layer | None:
    doubts: list[str] = []
    folder: str | None = None
    at = 1
    while at < len(words):
        word = words[at]
        name, equals, _ = word.partition("=")
        if word in ("-u", "--unset"):
            at += 1
        elif word in ("-C", "--chdir"):
            at += 1
            folder = words[at] if at < len(words) else HOLE
        elif word.startswith(("-C", "--chdir=")):
            folder = word[2:] if word.startswith("-C") else word.partition("=")[2]
        elif word.startswith(("-S", "--split-string")):
            split = [word.removeprefix("-S").removeprefix("--split-string").lstrip("=")]
            split = [one for one in [*split, *words[at + 1 :]] if one]
            return Layer(scripts=[" ".join(split)], doubts=["env takes its words apart itself"])
        elif equals and not word.startswith("-"):
            if not HARMLESS.fullmatch(name):
                doubts.append(f"{name} may change what the program does")
        elif not word.startswith("-"):
            break
        elif not re.fullmatch(r"--?|-[i0v]+|-u.+|--unset=.*|--ignore-environment|--null", word):
            doubts.append("an option of env that is not known")
        at += 1
    inner = words[at:]
    if inner and is_open(inner[0]):
        doubts.append("words of env that are not known")
    if folder is not None:
        doubts.append("env moves to another folder")
    if not inner:
        return Layer(doubts=doubts) if doubts else None
    return Layer(inner, doubts=doubts, others=_suffixes(words) if doubts else (), folder=folder)


def _xargs(words: Sequence[str]) -> Layer | None:
    at, doubts = _after_options(words, _XARGS)
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
    filled = filled if filled != inner else [*inner, HOLE]
    return Layer(filled, doubts=doubts, others=_suffixes(words) if doubts else ())


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
    if program == "git":
        return Layer(scripts=_of_git(words), judged="whole")
    if sum(map(len, words)) > _LONGEST:
        return Layer(doubts=[f"more words of {program} than are looked into"], judged="whole")
    doubts = [f"{program} runs what cannot be read"] if program in _NEVER_READ else []
    scripts = [word for word in words[1:] if _TAKES_SHELL.search(word) and not is_open(word)]
    scripts += [
        word.partition("=")[2] for word in words[1:] if word.startswith("--") and "=" in word
    ]
    scripts += [word[2:] for word in words[1:] if program in _SHELL_C and word[:2] == "-c"]
    scripts = [script.replace(HOLE, "$_") for script in scripts if script]
    if program in _SHELL_C:
        scripts.append(" ".join(words[1:]).replace(HOLE, "$_"))
    inner: Sequence[str] = ()
    for at, word in enumerate(words[1:], 1):
        name = posixpath.basename(word)
        known = name in SHELLS or name in _PREFIXES or name in _HANDLERS
        if known or (program not in _FAR and writes_files(name)):
            inner = words[at:]
            break
    folder = _chdir(words) if program in ("sudo", "doas") else None
    return Layer(inner, scripts, doubts, _suffixes(words), judged="whole", folder=folder)


def _chdir(words: Sequence[str]) -> str | None:
    for word, value in zip(words[1:], [*words[2:], ""], strict=True):
        if word in ("-D", "-C", "--chdir"):
            return value
        if word.startswith("--chdir="):
            return word.partition("=")[2]
    return None


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
