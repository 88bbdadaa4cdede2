"""Option grammars of the program table: held against what programs say of themselves, and against
every spelling of an option."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache

import pytest

from bridle.core.permission.shell.programs import describe
from bridle.core.permission.shell.programs.describe import _COMMON
from bridle.core.permission.shell.programs.options import Option, grammar
from bridle.core.permission.shell.programs.row import Row
from bridle.core.permission.shell.programs.table import ROWS

# Programs whose --help lists options line by line in GNU's way, and that need nothing to do so.
SELF_DESCRIBED = [
    "ls", "cat", "tac", "head", "tail", "wc", "nl", "sort", "uniq", "cut", "tr", "diff", "cmp",
    "comm", "join", "paste", "od", "base64", "md5sum", "cksum", "fold", "fmt", "pr", "expand",
    "column", "iconv", "strings", "hexdump", "shuf", "split", "csplit", "stat", "file", "du",
    "df", "readlink", "realpath", "basename", "date", "id", "uname", "seq", "numfmt", "cp",
    "mv", "rm", "rmdir", "mkdir", "touch", "ln", "tee", "truncate", "install", "chmod", "chown",
    "mktemp", "mkfifo", "mknod", "shred", "fallocate", "env", "nice", "ionice", "setsid",
    "stdbuf", "timeout", "flock", "taskset", "prlimit", "chrt", "unshare", "nsenter", "xargs",
    "su", "setpriv", "watch", "grep", "sed", "tar", "gzip", "xz", "make", "script", "time",
    "sudo", "wget", "choom",
]  # fmt: skip
# What their --help leaves out or says otherwise: each was tried.
HELP_IS_WRONG = {
    "xargs --max-lines", "file --parameter", "unshare --propagation", "unshare --setgroups",
    "setpriv --pdeathsig", "wget --max-redirect", "wget --hsts-file",
}  # fmt: skip
_OPTION = re.compile(r"(?<![\w-])(--[\w-]+)(\[=[^\]]+\]?|=\S+)?")
_FILE_ROLES = ("read", "write", "remove", "read/", "write/")


def _rows() -> Iterator[Row]:
    yield from dict.fromkeys(ROWS.values())


def _grammar(row: Row) -> dict[str, Option]:
    program, _, sub = row.names.partition("|")[0].partition(" ")
    top = ROWS[program].options if sub and ROWS[program].everywhere else ""
    return dict(grammar(f"{row.options} {top} {_COMMON}", row.style))


@cache
def _described(program: str) -> dict[str, str]:
    """Long options, and whether each takes a value: nothing, value or attached."""
    done = subprocess.run(
        [program, "--help"],
        capture_output=True,
        text=True,
        timeout=20,
        stdin=subprocess.DEVNULL,
        env={"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL": "C"},
    )
    found: dict[str, str] = {}
    for line in (done.stdout + done.stderr).splitlines():
        if not re.match(r"\s{1,12}-", line):
            continue
        head = re.split(r"\s{2,}", line.strip())[0]
        head = line.strip() if head.endswith(",") else head
        for name, value in _OPTION.findall(head):
            arity = "nothing" if not value else "attached" if value.startswith("[") else "value"
            if arity == "nothing" and re.search(rf"{name} (<|[A-Z]{{2,}}|\w+>)", head):
                arity = "value"
            found.setdefault(name, arity)
    return found


@pytest.mark.parametrize("program", SELF_DESCRIBED)
def test_a_long_option_takes_a_value_where_its_program_says_so(program: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    options = _grammar(ROWS[program])
    differing = {
        name: (arity, options[name].takes)
        for name, arity in _described(program).items()
        if name in options
        and options[name].takes != arity
        and (options[name].takes, arity) != ("attached", "nothing")  # a flag, or with `=`
        and f"{program} {name}" not in HELP_IS_WRONG
    }
    assert differing == {}


@pytest.mark.parametrize("program", SELF_DESCRIBED)
def test_an_option_that_a_row_does_not_know_makes_it_more_than_a_reader(program: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    options = _grammar(ROWS[program])
    for name in [*_described(program), "--no-such-option"]:
        if name not in options and not any(full.startswith(name) for full in options):
            found = describe([program, name, "secret.txt"])
            assert found.effect == "runs", name
            named = {one.path for one in found.accesses} | {
                word for run in found.runs for word in run.words
            }
            assert "secret.txt" in named, name
            if ROWS[program].command is not None:
                assert found.doubts, name


def test_most_options_of_programs_that_only_read_are_known() -> None:
    readers = [
        name
        for name in SELF_DESCRIBED
        if ROWS[name].effect in ("none", "reads") and shutil.which(name)
    ]
    unknown = {
        f"{name} {option}"
        for name in readers
        for option in _described(name)
        if option not in _grammar(ROWS[name])
    }
    known = sum(len(_described(name)) for name in readers)
    assert len(unknown) * 20 < known, unknown  # 95 of 100


@pytest.mark.parametrize("row", _rows(), ids=lambda row: row.names.partition("|")[0])
def test_no_option_means_two_things(row: Row) -> None:
    meanings: dict[str, set[Option]] = {}
    for token in row.options.split():
        for name, option in grammar(token, row.style).items():
            meanings.setdefault(name, set()).add(option._replace(name=""))
    assert {name: found for name, found in meanings.items() if len(found) > 1} == {}


def _spellings(row: Row, name: str, option: Option) -> Iterator[list[str]]:
    """Every way to give this option the value `VALUE`."""
    flags = [
        flag[1]
        for flag, other in _grammar(row).items()
        if len(flag) == 2 and other.takes == "nothing" and not other.marks and flag[1].isalnum()
    ]
    if row.style == "single":
        yield [name, "VALUE"]
        yield [f"{name}=VALUE"]
    elif name.startswith("--"):
        yield [f"{name}=VALUE"]
        if option.takes == "value":
            yield [name, "VALUE"]
            names = list(_grammar(row))
            for length in range(3, len(name)):
                cut = name[:length]
                if {_grammar(row)[full] for full in names if full.startswith(cut)} == {option}:
                    if cut not in names:
                        yield [cut, "VALUE"]
                        yield [f"{cut}=VALUE"]
                    break
    else:
        yield [f"{name}VALUE"]
        if option.takes == "value":
            yield [name, "VALUE"]
        for flag in flags[:2]:
            yield [f"-{flag}{name[1]}VALUE"]
            if option.takes == "value":
                yield [f"-{flag}{name[1]}", "VALUE"]


def _file_options() -> Iterator[tuple[str, Row, str, Option]]:
    for row in _rows():
        if row.own:
            continue
        for name, option in _grammar(row).items():
            if option.role in _FILE_ROLES:
                yield row.names.partition("|")[0], row, name, option


def test_a_file_is_named_however_its_option_is_spelled() -> None:
    count = 0
    for program, row, name, option in _file_options():
        kind, recursive = option.role.removesuffix("/"), option.role.endswith("/")
        for words in _spellings(row, name, option):
            behind = [] if row.style == "posix" or "given" in option.marks else ["operand"]
            for line in ([*program.split(), *words], [*program.split(), *words, *behind]):
                found = describe(line)
                count += 1
                assert any(
                    one.path == "VALUE" and one.kind == kind and one.recursive == recursive
                    for one in found.accesses
                ), (line, found)
                if kind != "read":
                    assert found.effect in ("writes", "runs"), line
    assert count > 1_000


def test_a_program_that_an_option_names_is_doubted_however_it_is_spelled() -> None:
    count = 0
    for row in _rows():
        if row.own:
            continue
        for name, option in _grammar(row).items():
            if option.role in ("program", "code"):
                for words in _spellings(row, name, option):
                    line = [*row.names.partition("|")[0].split(), *words]
                    found = describe(line)
                    count += 1
                    assert found.doubts and found.effect == "runs", line
    assert count > 300
