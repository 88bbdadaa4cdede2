"""Describes find: its start folders, the tests of its expression, and its actions."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from itertools import pairwise

from msgspec.structs import replace

from tillerman.core.permission.shell.parsed_script import HOLE, SIGNS, FileAccess, is_open
from tillerman.core.permission.shell.programs.invocation import NestedCommand, StdinSource
from tillerman.core.permission.shell.programs.row import InvocationDraft

_FOUND = "\ue003"  # stands for `{}` while the inner command is described
# Number of arguments of each test and action; others are unknown.
_NONE = (
    "a and o or not daystart depth d follow ignore_readdir_race noignore_readdir_race mount noleaf "
    "nowarn warn xdev empty executable false true nogroup nouser readable writable print print0 ls "
    "prune quit delete noxdev"
)
_ONE = (
    "files0-from maxdepth mindepth regextype amin anewer atime cmin cnewer context ctime fstype "
    "gid group ilname iname inum ipath iregex iwholename links lname mmin mtime name newer path "
    "perm regex samefile size type uid used user wholename xtype printf fprint fprint0 fls"
)
_TAKES = {**dict.fromkeys(_NONE.split(), 0), **dict.fromkeys(_ONE.split(), 1), "fprintf": 2}
_EXECUTE = ("exec", "execdir", "ok", "okdir")
_NAMES = frozenset({"-name", "-iname"})
_JOINS = frozenset({"-o", "-or", "!", "-not", "(", ")", ",", "-prune"})
_READS = frozenset({"-newer", "-anewer", "-cnewer", "-samefile"})


def describe_find(draft: InvocationDraft) -> None:
    words = list(draft.words[1:])
    at = _after_global_options(words)
    starts: list[str] = []
    while at < len(words) and not _begins_expression(words[at]):
        starts.append(words[at])
        at += 1
    expression = words[at:]
    if any(word[:1] in SIGNS and word for word in starts):
        _unknown(draft, starts)
    starts = starts or ["."]
    only = _only(expression)
    for start in starts:
        draft.access(start, "read")
    _actions(draft, expression, starts, only)


def _unknown(draft: InvocationDraft, words: Sequence[str]) -> None:
    """One of the words may be -fprint, and the next its file."""
    draft.doubt("unknown arguments of find")
    draft.mention([word for word in words if not is_open(word)])


def _after_global_options(words: Sequence[str]) -> int:
    at = 0
    while at < len(words) and (
        words[at] in ("-H", "-L", "-P") or words[at].startswith(("-O", "-D"))
    ):
        at += 2 if words[at] == "-D" else 1
    return at


def _begins_expression(word: str) -> bool:
    return (word.startswith("-") and len(word) > 1) or word in ("(", ")", "!", ",")


def _only(expression: Sequence[str]) -> tuple[str, ...]:
    """The names that are found, if the expression has no alternatives."""
    if _JOINS.intersection(expression):
        return ()
    names = [value for test, value in pairwise(expression) if test in _NAMES]
    return (names[0],) if names and not SIGNS.intersection(names[0]) else ()


def _actions(
    draft: InvocationDraft, expression: Sequence[str], starts: Sequence[str], only: tuple[str, ...]
) -> None:
    at = 0
    while at < len(expression):
        word = expression[at]
        name = word.removeprefix("-")
        at += 1
        if word[:1] in SIGNS and word:
            _unknown(draft, expression)
        elif word in ("(", ")", "!", ","):
            continue
        elif word.startswith("-newer") and len(name) == 7:  # -newermt and the like
            at += 1
        elif name in _EXECUTE:
            end = _end(expression, at)
            _execute(draft, expression[at:end], name, starts, only)
            at = end + 1
        elif name not in _TAKES:
            draft.doubt(f"an unknown expression of find: {word}")
            draft.mention(expression[at - 1 :])
        else:
            value = expression[at] if _TAKES[name] and at < len(expression) else ""
            at += _TAKES[name]
            _primary(draft, word, value, starts, only)


def _primary(
    draft: InvocationDraft, word: str, value: str, starts: Sequence[str], only: tuple[str, ...]
) -> None:
    if word in ("-fprint", "-fprint0", "-fls", "-fprintf"):
        draft.access(value, "write")
    elif word in _READS or word == "-files0-from":
        draft.access(value, "read")
        if word == "-files0-from":
            draft.access(HOLE, "read")
    elif word == "-delete":
        draft.at_least("writes")
        draft.accesses += [
            FileAccess(start, "remove", recursive=True, only=only) for start in starts
        ]


def _end(expression: Sequence[str], at: int) -> int:
    """The end of a command: at `;`, or at a `+` that follows `{}`."""
    for place in range(at, len(expression)):
        if expression[place] == ";":
            return place
        if expression[place] == "+" and place > at and expression[place - 1] == "{}":
            return place
    return len(expression)


def _execute(
    draft: InvocationDraft,
    command: Sequence[str],
    name: str,
    starts: Sequence[str],
    only: tuple[str, ...],
) -> None:
    words = tuple(word.replace("{}", HOLE) for word in command)
    if not words:
        return
    directory = HOLE if name.endswith("dir") else None
    accesses = _accesses(command, starts, only, in_directory=directory is not None)
    run = NestedCommand(words, decided="both", directory=directory, later=True, accesses=accesses)
    draft.runs.append(run)


def _accesses(
    command: Sequence[str], starts: Sequence[str], only: tuple[str, ...], *, in_directory: bool
) -> tuple[FileAccess, ...] | None:
    """The accesses of the inner command, with `{}` for everything found below the start folders."""
    from tillerman.core.permission.shell.programs.describe import describe  # import cycle
    from tillerman.core.permission.shell.programs.table import ROWS

    told: list[FileAccess] = []
    waiting = [tuple(word.replace("{}", _FOUND) for word in command)]
    while waiting:
        inner = describe(waiting.pop(), StdinSource())
        if any(run.script is not None or run.directory for run in inner.runs):
            return None  # the evaluator of scripts knows more
        lists = inner.row in ROWS and ROWS[inner.row].names_only
        told += (replace(one, names_only=lists) for one in inner.accesses)
        waiting += [run.words for run in inner.runs]
    found: list[FileAccess] = []
    for one in told:
        if one.path == _FOUND:
            follows = one.kind in ("read", "mention")  # it follows links that find does not
            below = replace(one, recursive=True, only=only, follows_links=follows)
            found += [replace(below, path=start) for start in starts]
        elif _FOUND in one.path:
            found.append(replace(one, path=one.path.replace(_FOUND, HOLE)))
        elif in_directory and not one.path.startswith(("/", "~")):
            name = posixpath.basename(one.path)
            names = (name,) if name not in ("", ".", "..") and not one.recursive else ()
            found += [replace(one, path=start, recursive=True, only=names) for start in starts]
        else:
            found.append(one)
    return tuple(dict.fromkeys(found))
