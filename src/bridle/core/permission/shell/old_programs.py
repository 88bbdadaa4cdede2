"""What is known of single programs: code and programs among their words, files and hosts."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from typing import NamedTuple

from bridle.core.permission.shell import git, sed
from bridle.core.permission.shell.files import files_of
from bridle.core.permission.shell.script import HOLE, SIGNS, is_open, joined

_STANDARD = frozenset({
    "/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin", "/usr/local/sbin",
    "/opt/homebrew/bin",
})  # fmt: skip


class _Code(NamedTuple):
    """Options of an interpreter after which code stands: letters, others; and such commands."""

    letters: str = ""
    options: tuple[str, ...] = ()
    words: tuple[str, ...] = ()


_NODE = _Code("epr", ("--eval", "--print", "--require", "--import", "--loader"))
_CODE: dict[str, _Code] = {
    "python": _Code("c"), "pypy": _Code("c"), "ipython": _Code("c"), "perl": _Code("eEIMm"),
    "ruby": _Code("er"), "node": _NODE, "nodejs": _NODE, "bun": _NODE,
    "deno": _Code(words=("eval", "repl")), "php": _Code("rBREd"), "lua": _Code("el"),
    "luajit": _Code("el"), "Rscript": _Code("e"), "julia": _Code("eEL"), "osascript": _Code("e"),
    "pwsh": _Code("cCeE"), "powershell": _Code("cCeE"), "ghci": _Code("e"), "ghc": _Code("e"),
    "elixir": _Code("e", ("--eval",)), "erl": _Code(options=("-eval", "-run", "-s")),
    "groovy": _Code("e"), "scala": _Code("e"), "raku": _Code("e"), "guile": _Code("c"),
    "sbcl": _Code(options=("--eval", "--load")), "racket": _Code("e"), "ocaml": _Code("e"),
    "swift": _Code("e"), "tclsh": _Code(), "irb": _Code(),
    "emacs": _Code("l", ("--eval", "-eval", "--execute", "--load", "--script", "-batch")),
}  # fmt: skip
_RUN_WORDS = frozenset({
    "timeit", "pdb", "code", "runpy", "profile", "cProfile", "trace",
    "zipfile", "tarfile", "json.tool", "idlelib", "idlelib.idle", "asyncio", "sqlite3", "pickle",
    "doctest", "ensurepip",
})  # fmt: skip
_PYTHON_VALUED = frozenset({"-W", "-X", "--check-hash-based-pycs"})
_ONLY_TELLS = frozenset({"--version", "-V", "--help", "-h"})
_AWK = (
    "-l", "--load", "-i", "--include", "-f", "--file", "-E", "--exec", "-o", "--pretty-print",
    "-d", "--dump-variables", "-p", "--profile", "-D", "--debug", "--source",
)  # fmt: skip
# Options whose value is, or names, a program.
_RUNS: dict[str, tuple[str, ...]] = {
    "tar": (
        "--checkpoint-action", "--to-command", "--use-compress-program", "--rsh-command",
        "--absolute-names", "-P", "--transform", "--xform", "--remove-files", "--index-file",
        "--info-script", "--new-volume-script", "--rmt-command", "-I", "-F",
    ),
    "git": (
        "-c", "--config-env", "--exec-path", "--upload-pack", "--receive-pack", "--exec",
        "--extcmd", "--open-files-in-pager", "-O", "--config", "--ext-diff", "--textconv",
        "--template", "--tree-filter", "--index-filter", "--gpg-sign",
    ),
    "rsync": ("-e", "--rsh", "--rsync-path"),
    "scp": ("-S", "-o", "-F"),
    "sftp": ("-S", "-o", "-F", "-D"),
    "ssh": ("-o", "-F", "-E", "-I"),
    "zip": ("-TT", "--unzip-command"),
    "man": ("-P", "--pager", "-H", "--html", "-C"),
    "make": ("--eval", "SHELL="),
    "gmake": ("--eval", "SHELL="),
    "mapfile": ("-C",),
    "readarray": ("-C",),
    "compgen": ("-C", "-W", "-F"),
    "complete": ("-C", "-W", "-F"),
    "sort": ("--compress-program",),
    "split": ("--filter",),
    "rg": ("--pre", "--hostname-bin"),
    "find": ("-fprint", "-fls", "-delete"),
    "fd": ("-x", "-X", "--exec", "--exec-batch"),
    "fdfind": ("-x", "-X", "--exec", "--exec-batch"),
    "curl": ("-K", "--config"),
    "wget": ("--use-askpass", "--execute", "-e", "--config"),
    "gcc": ("-wrapper", "-fplugin", "-specs"),
    "g++": ("-wrapper", "-fplugin", "-specs"),
    "cc": ("-wrapper", "-fplugin", "-specs"),
    "clang": ("-fplugin", "-load"),
    "go": ("-exec", "-toolexec", "-vettool", "-overlay"),
    "cargo": ("--config",),
    "npm": ("--script-shell", "--node-options", "--call", "-c"),
    "pnpm": ("--script-shell", "--node-options", "--shell-mode"),
    "java": ("-javaagent", "-agentlib", "-agentpath", "-XX:OnError", "-XX:OnOutOfMemoryError"),
    "nmap": ("--script",),
    "tcpdump": ("-z",),
    "nc": ("-e", "-c"),
    "ncat": ("-e", "-c", "--exec", "--sh-exec", "--lua-exec"),
    "openssl": ("-engine", "-provider"),
    "apt": ("-o",),
    "apt-get": ("-o",),
    "dpkg": ("--pre-invoke", "--post-invoke"),
    "dnf": ("--setopt",),
    "yum": ("--setopt",),
    "gdb": ("-ex", "-iex", "--eval-command", "--command", "-x"),
    "lldb": ("-o", "-O", "-s", "-b"),
    "vim": ("-c", "--cmd", "-S", "+", "-s"),
    "less": ("+",),
    "awk": _AWK,
    "gawk": _AWK,
}  # fmt: skip
_SAME = {"vi": "vim", "nvim": "vim", "ex": "vim", "view": "vim", "gvim": "vim", "gtar": "tar",
         "bsdtar": "tar", "more": "less"}  # fmt: skip
_FROM_INPUT = re.compile(r"(-\w*f|--(make)?file=)?(-|/dev/.*)")
_INSIDE = {
    "sqlite3": re.compile(r"\.(shell|system|load|import|output|once|excel)|load_extension|edit\("),
    "psql": re.compile(r"\\(!|o\b|g\b|copy|setenv)|program", re.IGNORECASE),
    "mysql": re.compile(r"\\!|\bsystem\b|outfile", re.IGNORECASE),
    "awk": re.compile(r"system|getline|inplace|@|\|(?!\|)|print.*>", re.DOTALL),
    "sed": re.compile(
        r"(^|[;{}\n/\d$,!=\s])\s*[erRwW](\s|$)|(^|[;{}\n\d$/])\s*s(.).*\4.*\4[gpiImM\d]*[ew]",
        re.DOTALL,
    ),
    "ed": re.compile(""),
}
_INSIDE |= dict.fromkeys(("gawk", "mawk", "nawk"), _INSIDE["awk"])
_INSIDE |= {"gsed": _INSIDE["sed"], "mariadb": _INSIDE["mysql"]}
_GIT_QUIET = frozenset({"--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs"})
_GIT_VALUED = frozenset({"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env"})
_GIT_PLAIN = frozenset({
    "add", "commit", "diff", "log", "show", "status", "checkout", "restore", "rm", "mv", "branch",
    "tag", "stash", "reset", "blame", "rev-parse", "merge", "cherry-pick", "revert", "switch",
})  # fmt: skip
_IDLE = frozenset({
    "cd", "pushd", "pwd", "echo", "printf", "true", "false", ":", "test", "[", "sleep",
    "wait", "exit", "return", "break", "continue", "shift", "read", "local", "unset",
})  # fmt: skip
_EVALUATE = frozenset({
    "let", "declare", "typeset", "local", "export", "readonly", "read", "unset", "printf", "test",
    "[", "mapfile", "readarray", "wait", "getopts",
})  # fmt: skip
_MOST = 500  # files and hosts that are looked at
_AUTHORITY = re.compile(r"[^/?#\s]*")
_LONGEST_HOST = 1_000
_LONGEST_SCRIPT = {"sed": 300, "gsed": 300}  # that its pattern takes no time on
_REMOTE = re.compile(r"(?:[\w.+-]+@)?([A-Za-z0-9][\w.-]*\.[A-Za-z]{2,}|\d+(?:\.\d+){3}):(?!/)")
_TALKS = frozenset({
    "curl", "wget", "ssh", "scp", "sftp", "rsync", "nc", "ncat", "telnet", "ftp", "ping", "dig",
    "nslookup", "host", "http", "https", "xh", "aria2c",
})  # fmt: skip
_HOST = re.compile(r"(?:[\w.+-]+@)?([A-Za-z0-9][\w-]*(?:\.[\w-]+)*\.[A-Za-z]{2,})(?:[:/].*)?")


class About(NamedTuple):
    text: str
    others: Sequence[str] = ()
    doubts: Sequence[str] = ()
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    removes: bool = False
    hosts: tuple[str, ...] = ()
    idle: bool = False


def about(words: Sequence[str]) -> About:
    if not words:
        return About("")
    folder, base = posixpath.split(words[0])
    others = []
    if folder in _STANDARD:
        words = [base, *words[1:]]
    elif folder:
        others.append(joined([base, *words[1:]]))
    text = joined(words)
    if is_open(words[0]):
        doubts = ["which program this is shows only when it runs"]
        return About(text, others, doubts, hosts=_hosts(base, words))
    name = _family(base)
    doubts = _doubts(name, words)
    if name == "git":
        text, rest = _git(words)
        others += rest
    reads, writes, removes = files_of(name, words)
    hosts = _hosts(name, words)
    if len(reads) + len(writes) + len(hosts) > _MOST:
        doubts.append(f"more than {_MOST} files")
        reads, writes, hosts = reads[:_MOST], writes[:_MOST], hosts[:_MOST]
    idle = not folder and not doubts and _is_idle(base, words)
    return About(text, others, doubts, reads, writes, removes, hosts, idle)


def is_code(text: str) -> bool:
    """Quoted, a substitution is a text, until something takes that text for arithmetic."""
    return "$(" in text or "`" in text


def _is_idle(name: str, words: Sequence[str]) -> bool:
    if name == "cat":
        return len(words) == 1
    if name in ("cd", "pushd"):  # where to, is looked at by who knows the workspace
        return len(words) == 2 and not is_open(words[1]) and not words[1].startswith("-")
    return name in _IDLE and "-v" not in words  # which evaluates a name


def _family(base: str) -> str:
    """`python3.12` is a python."""
    plain = base.rstrip("0123456789.").removesuffix("-")
    name = plain if plain in _CODE else base
    return _SAME.get(name, name)


def _doubts(name: str, words: Sequence[str]) -> list[str]:
    found: list[str] = []
    if name in _CODE and _has_code(name, words):
        found.append(f"code for {name}, which is not read")
    for option in _RUNS.get(name, ()):
        if any(_is_option(word, option) for word in words[1:]):
            found.append(f"{option} of {name} can run any program")
            break
    if name == "tar" and len(words) > 1 and re.match(r"[a-zA-Z]*[IFP]", words[1]):
        found.append("an option of tar can run any program")
    if name in _EVALUATE and any(map(is_code, words[1:])):
        found.append(f"{name} may run a text")
    if name.startswith("="):
        found.append("a name that zsh looks up")
    if name == "git":
        found += git.doubts_of(words)
    if name == "git" and any("ext::" in word for word in words):
        found.append("ext:: of git can run any program")
    if name in ("make", "gmake") and any(map(_FROM_INPUT.fullmatch, words[1:])):
        found.append("rules of make that are not read")
    if name == "ed" or (name == "sqlite3" and sum(word[:1] != "-" for word in words) < 3):
        found.append(f"a script of {name} that is not read")
    if name in ("sed", "gsed") and sed.is_unsure(words):
        found.append("a script of sed that can run a program or write a file")
    longest = _LONGEST_SCRIPT.get(name, 3_000)
    if (inside := _INSIDE.get(name)) and any(
        len(word) > longest or inside.search(word) for word in words[1:]
    ):
        found.append(f"a script of {name} that can run a program or write a file")
    if (name in _RUNS or name in _INSIDE) and _may_be_options(name, words):
        found.append(f"words of {name} that are not known")
    return found


def _has_code(name: str, words: Sequence[str]) -> bool:
    """Before the file that it would run; without a file, what comes in is the code."""
    code = _CODE[name]
    rest = iter(words[1:])
    for word in rest:
        if not word.startswith(("-", "+")):
            return is_open(word) or word in code.words
        if name in ("python", "pypy") and word in _PYTHON_VALUED:
            next(rest, None)
            continue
        if word == "-" or word.partition("=")[0] in code.options:
            return True
        if word in _ONLY_TELLS:
            return False
        if name in ("python", "pypy") and word.startswith("-m"):
            module = word[2:] or next(rest, "")
            return is_open(module) or module in _RUN_WORDS
        if not word.startswith("--") and not set(code.letters).isdisjoint(word[1:]):
            return True
    return True


def _is_option(word: str, option: str) -> bool:
    """Long ones may be cut short, single letters stand in a row with others."""
    if option.startswith("--"):
        name = word.partition("=")[0]
        return len(name) > 3 and option.startswith(name)
    if len(option) == 2 and option[0] == "-":
        return word.startswith("-") and not word.startswith("--") and option[1] in word
    return word.startswith(option)


def _may_be_options(name: str, words: Sequence[str]) -> bool:
    if name == "git":
        if len(words) > 1 and words[1] in _GIT_PLAIN:
            return False
        return any(word[:1] in SIGNS for word in words[1:] if word)
    for word in words[1:]:
        if word == "--":
            return False
        if word[:1] in SIGNS and word:
            return True
    return False


def _git(words: Sequence[str]) -> tuple[str, list[str]]:
    """Without the options that stand before its command; those of no weight are left out of all."""
    kept: list[str] = []
    at = 1
    while at < len(words) and words[at].startswith("-"):
        if words[at] not in _GIT_QUIET:
            kept.append(words[at])
            if words[at] in _GIT_VALUED:
                kept += words[at + 1 : at + 2]
                at += 1
        at += 1
    text = joined([words[0], *kept, *words[at:]])
    bare = joined(["git", *words[at:]])
    return text, [joined(words), bare]


def _hosts(name: str, words: Sequence[str]) -> tuple[str, ...]:
    """`…` for one that is not known."""
    found: list[str] = []
    for word in words[1:]:
        _, *rests = word.split("://")
        found += [_host(_first(rest)) for rest in rests]
        if len(word) > _LONGEST_HOST:
            continue
        bare = name in _TALKS and not word.startswith("-")
        match = _REMOTE.match(word) or (_HOST.fullmatch(word) if bare else None)
        if match:
            found.append(match[1].lower())
    return tuple(dict.fromkeys(found))


def _first(rest: str) -> str:
    match = _AUTHORITY.match(rest)
    return match[0] if match else ""


def _host(authority: str) -> str:
    host = authority.rpartition("@")[2].partition(":")[0].lower().rstrip(".")
    return HOLE if not host or is_open(authority) or "\\" in authority else host
