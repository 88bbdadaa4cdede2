"""What the reader reports of a line, in the form that is compared with facts."""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections.abc import Iterable
from typing import NamedTuple

from tests.core.permission.differential import tree
from tillerman.core.permission.shell import reader
from tillerman.core.permission.shell.parsed_script import ANY, HOLE, ONE, FileAccess, ParsedCommand
from tillerman.core.permission.shell.program_execution import COMPUTED

_SIGNS = re.compile(f"([{HOLE}{ANY}{ONE}])")
_PROCESS_CWD = re.compile(r"^/+proc/+(self|thread-self|\d+)/+cwd(?=/|$)")
# Where the reader doubts what these run, what they write is theirs: each runs code of its own.
# Programs that stubs stand for are not among them: those write nothing.
WRITTEN = "a file that the line itself wrote"  # a doubt: `auto` asks about such a line
_IN_SHELL = frozenset({"eval", ".", "source"})
OPAQUE = _IN_SHELL | {"sh", "bash", "dash", "perl", "awk", "mawk", "sed", "ed", "ex"}
STANDARD = frozenset({"/bin", "/usr/bin", "/sbin", "/usr/sbin", "/usr/local/bin"})
_ASSIGNMENTS = re.compile(r"^(?:\w+=(?:'[^']*'|\S)*\s+)+")  # before a command
_AS_REGEX = {HOLE: ".*", ANY: "[^/]*", ONE: "[^/]"}


class Access(NamedTuple):
    path: str
    kind: str  # read, write, remove, mention
    directories: tuple[str | None, ...]
    recursive: bool = False
    only: tuple[str, ...] = ()
    skips_hidden: bool = False
    redirection: bool = False


class Reading(NamedTuple):
    programs: frozenset[str]  # base names, with signs
    accesses: tuple[Access, ...]
    doubts: tuple[str, ...]  # of single commands
    unread: tuple[str, ...]  # of the line
    doubted: frozenset[str]  # programs of which it is not clear what they run
    is_opaque: bool  # a program or a script runs whose inside may do anything
    evaluates: bool = False  # the shell itself runs what is doubted

    def names(self, program: str) -> bool:
        return any(_regex(name).fullmatch(program) for name in self.programs)

    def doubts_any(self, programs: Iterable[str]) -> bool:
        patterns = [_regex(name) for name in self.doubted]
        return any(one.fullmatch(name) for one in patterns for name in programs)

    def covers(self, path: str, *, written: bool) -> bool:
        return any(_covers(access, path, written=written) for access in self.accesses)

    def names_below(self, path: str) -> bool:
        """Names whose parent is this written path."""
        return any(
            form.startswith(f"{path}/") or _is_above(path, form)
            for access in self.accesses
            if access.kind != "read"
            for directory in access.directories
            for form in _forms(_whole(access, directory))
        )


def reading(line: str) -> Reading:
    script = reader.read(line, tree.WORKSPACE)
    programs: set[str] = set()
    accesses: list[Access] = []
    doubts: list[str] = []
    doubted: set[str] = set()
    opaque = evaluates = False
    for command in script.commands:
        programs |= _programs(command)
        accesses += [_access(one) for one in command.accesses]
        doubts += command.doubts
        if command.doubts:
            doubted |= _programs(command)
            opaque = opaque or _is_opaque(command)
            evaluates = evaluates or command.words[:1] == () or command.words[0] in _IN_SHELL
            evaluates = evaluates or COMPUTED in command.doubts
    accesses += [_access(one, redirection=True) for one in script.redirections]
    return Reading(
        *(frozenset(programs), tuple(accesses), tuple(doubts), script.unread, frozenset(doubted)),
        is_opaque=opaque,
        evaluates=evaluates,
    )


def _is_opaque(command: ParsedCommand) -> bool:
    """Whether it runs a script, or an unknown program."""
    program = command.words[0] if command.words else ""
    folder, base = posixpath.split(program)
    runs_a_file = bool(folder) and folder not in STANDARD
    made_up = COMPUTED in command.doubts or _SIGNS.search(program)
    written = WRITTEN in command.doubts
    return runs_a_file or base in OPAQUE or bool(made_up) or written


def _programs(command: ParsedCommand) -> set[str]:
    texts = [_ASSIGNMENTS.sub("", text) for text in (command.text, *command.others)]
    first = [text.split(" ", 1)[0] for text in texts if text] + [*command.words[:1]]
    return {_base(name) for name in first}


def _base(name: str) -> str:
    """A value that the running shell inserts may contain slashes, and blanks that end the name."""
    return HOLE if HOLE in name else name.rpartition("/")[2]


def _access(one: FileAccess, *, redirection: bool = False) -> Access:
    return Access(
        one.path, one.kind, one.directories, one.recursive, one.only, one.skips_hidden, redirection
    )


def _covers(access: Access, path: str, *, written: bool) -> bool:
    if written and access.kind == "read":
        return False
    return any(_reaches(access, directory, path) for directory in access.directories)


def _reaches(access: Access, directory: str | None, path: str) -> bool:
    if HOLE in access.path or re.match("~[^/]", access.path):
        return True  # nobody knows which: it is asked about
    if directory is None and not access.path.startswith(("/", "~")):
        return True
    if directory is None and _PROCESS_CWD.match(access.path):
        return True
    return any(_matches(access, form, path) for form in _forms(_whole(access, directory)))


def _whole(access: Access, directory: str | None) -> str:
    """Its absolute path, from one of the directories."""
    base = _PROCESS_CWD.sub(tree.WORKSPACE, _at_home(directory or ""))
    base = posixpath.join(tree.WORKSPACE, base)
    named = _PROCESS_CWD.sub(base, _at_home(access.path))
    return re.sub("/+", "/", posixpath.join(base, named))


def _at_home(path: str) -> str:
    return re.sub("^~(?=/|$)", tree.HOME, path)


def _forms(whole: str) -> set[str]:
    """A path as written, normalized, and with the tree's own links followed."""
    tidy = posixpath.normpath(whole)
    forms = {tidy}
    for name, target in tree.LINKS.items():
        link = f"{tree.BASE}/{name}"
        real = posixpath.normpath(posixpath.join(posixpath.dirname(link), target))
        head = tree.WORKSPACE + "/"
        for form in (whole, tidy):
            inner = form.removeprefix(head)
            first, slash, rest = inner.partition("/")
            if form.startswith(head) and _regex(first).fullmatch(name.rpartition("/")[2]):
                forms.add(posixpath.normpath(real + slash + rest))
    return forms


def _matches(access: Access, whole: str, path: str) -> bool:
    if _regex(whole).fullmatch(path):
        return True
    head = path
    while not access.redirection and (head := posixpath.dirname(head)) != "/":
        if _regex(whole).fullmatch(head):
            return _below(access, path[len(head) + 1 :])
    return False


def _is_above(path: str, form: str) -> bool:
    """Whether the path may be a parent of what a form with signs names."""
    head = form if _SIGNS.search(form) else "/"
    while (head := posixpath.dirname(head)) != "/":
        if _regex(head).fullmatch(path):
            return True
    return False


def _below(access: Access, inner: str) -> bool:
    """Whether `inner` is below the directory that the access names."""
    parts = inner.split("/")
    if not access.recursive:
        return False
    if access.skips_hidden and any(part.startswith(".") for part in parts):
        return False
    return not access.only or any(fnmatch.fnmatch(parts[-1], glob) for glob in access.only)


def _regex(text: str) -> re.Pattern[str]:
    parts = _SIGNS.split(text)
    return re.compile("".join(_AS_REGEX.get(p) or re.escape(p) for p in parts), re.DOTALL)
