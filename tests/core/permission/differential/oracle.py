"""Compares what a line did with what was reported of it: each difference is a failure."""

from __future__ import annotations

import posixpath
import re
import signal
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from tests.core.permission.differential import stubs, tree
from tests.core.permission.differential.facts import Exec, Facts
from tests.core.permission.differential.reading import STANDARD, Reading, reading
from tillerman.core.events import PermissionRequested
from tillerman.core.permission import DecisionContext, Policy, Rule, actions, policy
from tillerman.core.permission.action import PolicyAction
from tillerman.core.permission.guarded_names import is_protected
from tillerman.core.permission.shell import reader
from tillerman.workspace.files import policy_lookup

# What they run stands for them: a preset that allows that allows them, too.
TRANSPARENT = frozenset({
    "env", "nohup", "timeout", "nice", "ionice", "xargs", "setsid", "stdbuf", "time", "sh", "bash",
    "dash", "flock", "taskset", "chrt", "prlimit", "setarch", "busybox", "rbash", "zsh",
    "choom", "setpriv", "runuser", "uclampset", "linux64", "unshare", "nsenter", "chroot", "capsh",
})  # fmt: skip
# Programs that start others of their own accord: caller -> what it runs inside. The reader names the
# commands of a line, and not what a program that it named is made of.
INSIDE = {
    "tar": {"gzip", "bzip2", "xz", "zstd", "sh"},
    "zcat": {"gzip"},
    "egrep": {"grep"},
    "fgrep": {"grep"},
    "install": {"strip"},
    "npm": {"node"},
    "xargs": {"echo"},  # where no command is given
    **{name: {"sh"} for name in ("setarch", "linux64", "x86_64", "unshare", "nsenter", "chroot")},
    "cc": {"cc1", "as", "collect2", "ld"},
    "gcc": {"cc1", "as", "collect2", "ld"},
}
# Programs that change nothing, whatever their arguments; and, by subcommand or option, some more.
READERS = frozenset({
    "cat", "ls", "head", "tail", "wc", "grep", "egrep", "fgrep", "find", "sort", "uniq", "cut", "tr",
    "diff", "cmp", "stat", "file", "du", "df", "od", "nl", "tac", "rev", "fold", "paste", "join",
    "comm", "echo", "printf", "true", "false", "pwd", "basename", "dirname", "realpath", "readlink",
    "id", "whoami", "uname", "date", "test", "[", "seq", "expr", "jq", "sed", "awk", "mawk", "sleep",
    "base64", "md5sum", "sha256sum", "sha1sum", "cksum", "strings", "xxd", "column", "fmt", "expand",
    "unexpand", "pr", "which", "hostname", "nproc", "printenv", "sum", "b2sum", "iconv", "shuf",
    "tsort", "ps", "uptime", "free", "numfmt", "groups", "logname", "arch", "tty", "factor", "tree",
    "getconf", "locale", "cal", "hexdump", "zcat", "lsblk", "yes", "base32", "basenc", "users", "who",
    "sha224sum", "sha384sum", "sha512sum", "pathchk", "dir", "vdir",
})  # fmt: skip
_VERSIONS = {"--version", "-v", "-V", "version"}
READING = {
    "git": {"status", "log", "diff", "show", "branch", "tag", "remote", "stash", "rev-parse", "blame",
            "describe", "ls-files", "ls-tree", "cat-file", "grep", "shortlog", "reflog", "config",
            "version", "rev-list", "merge-base", "show-ref", "for-each-ref", "name-rev", "whatchanged",
            "cherry", "count-objects", "diff-tree", "check-ignore", "var", "help", "symbolic-ref",
            "hash-object", "ls-remote", "worktree", "submodule", "range-diff", "diff-index"},
    "npm": {"ls", "list", "config", "prefix", "root", "bin", "help", "explain", "why"},
    "docker": {"ps", "images", "inspect", "logs", "info", "top", "port", "diff", "history", "stats"},
    "pip": {"list", "show", "freeze", "check"},
    "cargo": {"tree", "metadata", "pkgid"},
    "go": {"list", "env"},
    "yarn": {"list", "why"},
    "pnpm": {"list", "ls", "why"},
    **{name: set() for name in ("node", "python3", "python", "ruby", "make", "curl", "wget", "uv",
                                "pytest", "kubectl", "gh", "ssh", "npx", "vim", "less", "man", "tar")},
}  # fmt: skip
# Subcommands that read only with some words behind them.
_LISTS = (
    r"(?:(?:-[alrv]+|--all|--list|--remotes|--verbose|--show-current|--sort\S*|--format\S*)\s?)*"
)
_READING_FORMS = {
    "git": {
        "branch": re.compile(_LISTS),
        "tag": re.compile(rf"{_LISTS}|(?:-l|--list) .*"),
        "remote": re.compile(r"|-v|--verbose|(?:show|get-url).*"),
        "stash": re.compile(r"(?:list|show).*"),
        "config": re.compile(
            r"(?:--global |--local |--system )?[^\s-]\S*|(?:.* )?(?:--get\S*|--list|-l|get|list)(?: .*)?"
        ),
        "worktree": re.compile(r"list.*"),
        "submodule": re.compile(r"|status.*|summary.*"),
        "reflog": re.compile(r"|show.*|HEAD.*|-.*"),
        "symbolic-ref": re.compile(r"(?:(?:-q|--short) )*\S+"),
        "hash-object": re.compile(r"(?!.*-w).*"),
    },
    "npm": {"config": re.compile(r"|(?:get|list|ls).*")},
}
WRITERS = READERS | {
    *("cp", "mv", "rm", "rmdir", "mkdir", "touch", "tee", "ln", "truncate", "install", "chmod"),
    *("mkfifo", "link", "unlink", "split", "csplit", "dd", "mktemp", "shred", "fallocate", "chown"),
    *("chgrp",),
    *("gzip", "gunzip", "bzip2", "xz", "zip", "mknod"),
}

# What they write is said by their input, and not by the line: `auto` allows that.
UNPACKERS = frozenset({"tar", "unzip", "cpio", "patch"})
READING_SECONDS = 3.0  # of the processor, for all policies together
# Temporary files: of sort, ed, dash and patch; beside the file that sed, zip, ar, ln, shred, patch
# and bash's history rewrite.
_SCRATCH = re.compile(
    r"^/tmp/(sort|ed\.|sh-thd|ssh-|p[a-z]?[A-Za-z0-9]{6}$|cc[A-Za-z0-9]{6})"
    r"|/(sed|zi|st|Cu)[A-Za-z0-9]{6}$|/0+$|\.[or][A-Za-z0-9]{6}$|-\d+\.tmp$"
)
# cp -b, mv -b and patch leave these beside a file: that file has to be named.
_BACKUP = re.compile(r"(~|\.orig|\.rej)$")
_DENIED = Rule("denied", "deny", "no", commands=("rm *", "curl *", "git push*"))
_SECRET = Rule("secret", "deny", "no", paths=(".env",))
_TESTS = Rule("tests", "allow", "", commands=("npm test",))


class Failure(NamedTuple):
    kind: str
    detail: str
    shell: str
    line: str
    evidence: str = ""  # the path or the words in question

    @property
    def cause(self) -> tuple[str, str]:
        return self.kind, self.detail


@cache
def _policies() -> dict[str, Policy]:
    return {
        "commands": Policy.preset("auto", rules=[_DENIED]),
        "auto": Policy.preset("auto"),
        "secret": Policy.preset("auto", rules=[_SECRET]),
        "tests": Policy.preset("ask", rules=[_TESTS]),
        "edits": Policy.preset("edits"),
    }


@cache
def _context() -> DecisionContext:
    """As in a session: links are followed, and files looked up, on the disk."""
    more: dict[str, Any] = {"files": policy_lookup.DiskFiles()}
    home = PurePosixPath(tree.HOME)
    resolve = lru_cache(maxsize=10_000)(policy_lookup.resolved)  # nothing in this tree changes
    return DecisionContext(PurePosixPath(tree.WORKSPACE), home=home, resolve=resolve, **more)


class Judgement(NamedTuple):
    """All that is reported of a line before it runs."""

    reading: Reading
    verdicts: Mapping[str, str]
    crash: str = ""


# What a reader would say that sees nothing in any line: every fact is a failure then.
BLIND = Judgement(
    Reading(frozenset(), (), (), (), frozenset(), is_opaque=False),
    dict.fromkeys(("commands", "auto", "secret", "tests", "edits"), "allow"),
)


# Where enforcement is tested: whatever the reader says, nothing that is denied may run.
ENFORCED = Judgement(
    Reading(frozenset(), (), (), ("not judged",), frozenset(), is_opaque=True),
    {**dict.fromkeys(BLIND.verdicts, "ask"), "commands": "allow"},
)


def kept(line: str, shell: str, facts: Facts) -> list[Failure]:
    """With protected names and denied paths enforced: what differs in the end, or was read."""
    secret = f"{tree.WORKSPACE}/.env"
    found = [("protected name changed", _place(path), path) for path in facts.changed]
    found += [("denied path read", ".env", path) for path in facts.read if path == secret]
    return [Failure(kind, detail, shell, line, path) for kind, detail, path in found]


def judge(line: str) -> Judgement:
    signal.signal(signal.SIGPROF, _too_slow)
    signal.setitimer(signal.ITIMER_PROF, READING_SECONDS)
    try:
        return _judge(line)
    except Exception as error:
        nothing = Reading(
            frozenset(), (), ("it crashed",), ("it crashed",), frozenset(), is_opaque=True
        )
        return Judgement(nothing, {}, crash=f"{type(error).__name__}: {error}")
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _too_slow(*_: object) -> None:
    raise TimeoutError(f"not read within {READING_SECONDS} s")


def _judge(line: str) -> Judgement:
    _read_once()
    request = PermissionRequested(request_id="r", tool="Bash", title="", input={"command": line})
    verdicts = {
        name: policy.decide(request, _context()).verdict for name, policy in _policies().items()
    }
    return Judgement(reading(line), verdicts)


@cache
def _read_once() -> None:
    """A line is read and split into actions once, and not again for every policy."""
    reader.read = lru_cache(maxsize=4)(reader.read)
    split: dict[int, tuple[PermissionRequested, list[PolicyAction]]] = {}

    def acts_of(request: PermissionRequested, context: DecisionContext) -> list[PolicyAction]:
        known, acts = split.get(id(context), (None, []))
        if known is not request:
            acts = actions.acts_of(request, context)
            split[id(context)] = request, acts
        return acts

    policy.acts_of = acts_of


def failures(line: str, shell: str, facts: Facts, decided: Judgement) -> list[Failure]:
    if decided.crash:
        return [Failure("the reader crashed", decided.crash, shell, line)]
    found = [*_unread(facts, decided.reading), *_allowed(facts, decided)]
    once = {(kind, detail): evidence for kind, detail, evidence in reversed(found)}
    return [Failure(*cause, shell, line, evidence) for cause, evidence in reversed(once.items())]


def _unread(facts: Facts, reported: Reading) -> Iterator[tuple[str, str, str]]:
    """Facts that were neither named nor doubted."""
    if reported.unread:
        return
    for one in facts.execs if not reported.evaluates else ():
        # a doubt about a program is one about all that it runs, and about what it is
        called = posixpath.basename(one.argv[0]) if one.argv else ""
        if _is_inside(one) or reported.doubts_any((called, *one.via)):
            continue
        if not reported.names(one.program):
            yield "program not named", one.program, " ".join(one.argv)
    if reported.is_opaque:
        return
    for path in _top_changes(facts):
        named = {path, _BACKUP.sub("", path)}
        covered = any(reported.covers(one, written=True) for one in named)
        if not covered and not reported.names_below(path):  # mkdir -p a/b
            yield "write not named", _place(path), path
    for path in facts.read:
        if path == f"{tree.WORKSPACE}/.env" and not reported.covers(path, written=False):
            yield "read not named", ".env", path


def _allowed(facts: Facts, decided: Judgement) -> Iterator[tuple[str, str, str]]:
    """Facts that a policy allowed although it denies them."""
    verdicts, certain = decided.verdicts, not decided.reading.is_opaque
    if verdicts["commands"] == "allow":
        for one in facts.execs:
            if denied := _denied(one):
                yield "denied program ran", denied, " ".join(one.argv)
    changed = [path for path in facts.changed if not _is_scratch(path, facts)]
    places = {_place(path): path for path in changed if _is_guarded(path)}
    unpacked = any(one.program in UNPACKERS and not _packs(one) for one in facts.execs)
    if places and verdicts["auto"] == "allow" and certain and not unpacked:
        yield "guarded path changed under auto", min(places), places[min(places)]
    secret = f"{tree.WORKSPACE}/.env"
    if verdicts["secret"] == "allow" and certain:
        if secret in facts.read:
            yield "denied path read", ".env", secret
        if secret in facts.changed:
            yield "denied path changed", ".env", secret
    if verdicts["tests"] == "allow":
        yield from _beyond("ask", READERS, facts)
        if changed:
            yield "changed under ask", _place(changed[0]), changed[0]
    if verdicts["edits"] == "allow":
        yield from _beyond("edits", WRITERS, facts)
        if places:
            yield "guarded path changed under edits", min(places), places[min(places)]


def _beyond(preset: str, programs: frozenset[str], facts: Facts) -> Iterator[tuple[str, str, str]]:
    for one in facts.execs:
        if one.program in TRANSPARENT or _is_inside(one):
            continue
        if one.program == "npm" and one.argv[1:] == ("test",) and preset == "ask":
            if posixpath.dirname(one.path) not in {stubs.FOLDER, *STANDARD}:  # `env -i`: no PATH
                yield "another npm ran", one.path, one.path
            elif not (one.cwd + "/").startswith(tree.WORKSPACE + "/"):
                yield "npm test ran elsewhere", one.cwd, one.cwd
        elif preset == "edits" and _only_writes(one):
            continue
        elif one.path.startswith(tree.BASE) or not (one.program in programs or _only_reads(one)):
            yield f"ran under {preset}", one.program, " ".join(one.argv)


def _only_reads(one: Exec) -> bool:
    if one.program in {"gzip", "bzip2", "xz", "zstd"}:
        return bool({"-c", "--stdout", "-l", "-t"}.intersection(one.argv))
    if one.program == "tar":
        return not any(map(_changes_with_tar, one.argv[1:2])) and not any(
            map(_changes_with_tar, [word for word in one.argv[2:] if word.startswith("-")])
        )
    reading_words = READING.get(one.program)
    if reading_words is None:
        return False
    words = _arguments(one) if one.program == "git" else list(one.argv[1:])
    if not words or words[0] in _VERSIONS:
        return True
    if words[0] in _READING_FORMS.get(one.program, {}):
        return _READING_FORMS[one.program][words[0]].fullmatch(" ".join(words[1:])) is not None
    return words[0] in reading_words


def _only_writes(one: Exec) -> bool:
    """Whether it changes only files that its arguments name; unpacking an archive may change
    any."""
    if one.program == "git":
        return _arguments(one)[:1] in (["add"], ["mv"], ["rm"])
    return one.program == "tar" and _packs(one)


def _changes_with_tar(word: str) -> bool:
    """Whether its arguments create, change or unpack an archive."""
    if word.startswith("--"):
        names = (
            "create",
            "extract",
            "get",
            "append",
            "update",
            "delete",
            "concatenate",
            "catenate",
        )
        return any(name.startswith(word[2:]) for name in names)
    return bool(set("cxruA") & set(word.lstrip("-")))


def _packs(one: Exec) -> bool:
    """Whether it creates or extends an archive that its arguments name."""
    first, short = one.argv[1:2], [word[1:3] for word in one.argv[1:] if re.match("-[^-]", word)]
    keys = [*(word for word in first if not word.startswith("-")), *short]  # `tar cf`, `tar -cf`
    return any(word in {"--create", "--append", "--update"} for word in one.argv[1:]) or any(
        set("cru") & set(key) for key in keys
    )


def _arguments(git: Exec) -> list[str]:
    """The arguments without the options before the subcommand."""
    words = list(git.argv[1:])
    while words and words[0].startswith("-") and words[0] not in _VERSIONS:
        skipped = words.pop(0)
        if skipped in {"-C", "-c", "--git-dir", "--work-tree", "--namespace"} and words:
            words.pop(0)
    return words


def _denied(one: Exec) -> str:
    if one.program in {"rm", "curl"}:
        return one.program
    if one.program == "git" and _arguments(one)[:1] == ["push"]:
        return "git push"
    return ""


def _is_inside(one: Exec) -> bool:
    return any(one.program in INSIDE.get(caller, ()) for caller in one.via)


def _top_changes(facts: Facts) -> list[str]:
    """Without changes below a directory that was itself moved, created or removed."""
    changed = [path for path in facts.changed if not _is_scratch(path, facts)]
    folders = facts.replaced.intersection(facts.changed)
    return [path for path in changed if not any(path.startswith(f"{one}/") for one in folders)]


def _is_scratch(path: str, facts: Facts) -> bool:
    """Whether it is a temporary file of a program, which is left only if the program is killed."""
    stays = path in facts.left and not facts.timed_out
    return _SCRATCH.search(path) is not None and not stays


def _is_guarded(path: str) -> bool:
    if path == tree.WORKSPACE:
        return False  # its own mode: a policy that lets it be written lets this be changed
    if not path.startswith(tree.WORKSPACE + "/"):
        return True
    parts = path.removeprefix(tree.WORKSPACE + "/").split("/")
    return is_protected([part.lower() for part in parts])


def _place(path: str) -> str:
    """The part of a changed path that distinguishes causes."""
    if not path.startswith(tree.WORKSPACE + "/"):
        return "outside"
    parts = path.removeprefix(tree.WORKSPACE + "/").split("/")
    return parts[0] if is_protected([part.lower() for part in parts]) else "inside"
