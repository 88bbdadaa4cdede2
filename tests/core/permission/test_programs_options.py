"""Option grammars of the program table, compared with the programs' own help, and every spelling of
an option."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tillerman.core.permission.shell.builtins import BUILTINS
from tillerman.core.permission.shell.programs import describe
from tillerman.core.permission.shell.programs.describe import _COMMON
from tillerman.core.permission.shell.programs.options import ProgramOption, grammar
from tillerman.core.permission.shell.programs.row import Row
from tillerman.core.permission.shell.programs.table import ROWS
from tillerman.core.permission.shell.reader import read

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


def _grammar(row: Row) -> dict[str, ProgramOption]:
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


# What their --help says, as recorded: {program: {version, options: {name: arity}}}. Other versions
# have other options: what a row does not know is never a read (the test behind the next).
RECORDED: dict[str, dict[str, Any]] = json.loads(
    Path(__file__).with_name("described_options.json").read_text("utf-8")
)


@pytest.mark.parametrize("program", RECORDED)
def test_a_long_option_takes_a_value_where_its_program_says_so(program: str) -> None:
    options = _grammar(ROWS[program])
    differing = {
        name: (arity, options[name].takes)
        for name, arity in RECORDED[program]["options"].items()
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
    readers = [name for name in RECORDED if ROWS[name].effect in ("none", "reads")]
    unknown = {
        f"{name} {option}"
        for name in readers
        for option in RECORDED[name]["options"]
        if option not in _grammar(ROWS[name])
    }
    known = sum(len(RECORDED[name]["options"]) for name in readers)
    assert len(unknown) * 20 < known, unknown  # 95 of 100


@pytest.mark.parametrize("row", list(_rows()), ids=lambda row: row.names.partition("|")[0])
def test_no_option_means_two_things(row: Row) -> None:
    meanings: dict[str, set[ProgramOption]] = {}
    for token in row.options.split():
        for name, option in grammar(token, row.style).items():
            meanings.setdefault(name, set()).add(option._replace(name=""))
    assert {name: found for name, found in meanings.items() if len(found) > 1} == {}


def _spellings(row: Row, name: str, option: ProgramOption) -> Iterator[list[str]]:
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


def _file_options() -> Iterator[tuple[str, Row, str, ProgramOption]]:
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


def test_a_program_that_an_option_names_is_uncertain_however_it_is_spelled() -> None:
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


def test_a_command_that_an_option_runs_is_read_however_the_option_is_spelled() -> None:
    """In every row: in full, abbreviated as far as the program allows, attached and separate."""
    count = 0
    for row in _rows():
        if row.own:
            continue
        for name, option in _grammar(row).items():
            if option.role not in ("program", "shell"):
                continue
            for words in _spellings(row, name, option):
                line = [*row.names.partition("|")[0].split(), *words]
                scripts = [run.script for run in describe(line).runs]
                count += 1
                assert "VALUE" in scripts, line
    assert count > 200


def _cuts(row: Row, name: str) -> Iterator[str]:
    for length in range(4, len(name)):
        if name[:length] not in _grammar(row):
            yield name[:length]


def test_an_option_that_may_be_several_is_taken_for_each_of_them() -> None:
    """The installed program may have fewer options than its row: the word is then one of these."""
    count = 0
    for row in _rows():
        if row.own or row.style == "single":
            continue
        for name, option in _grammar(row).items():
            if option.role not in ("program", "shell", "write") or not name.startswith("--"):
                continue
            for cut in _cuts(row, name):
                line = [*row.names.partition("|")[0].split(), f"{cut}=VALUE"]
                found = describe(line)
                reached = {run.script for run in found.runs}
                if option.role == "write":
                    reached = {one.path for one in found.accesses if one.kind == "write"}
                count += 1
                assert found.effect in ("writes", "runs") and "VALUE" in reached, line
    assert count > 500


# -- hosts, configurations and programs that something else than the words chooses ----------------

# Options of any program that choose where it looks, what it obeys or what it runs.
_CHOOSES = re.compile(
    r"--(?:host|context|config|config-file|kubeconfig|server|url|registry|index-url|extra-index-url"
    r"|proxy|userconfig|globalconfig|script-shell|python|exec-path|git-dir|work-tree|config-env"
    r"|rsh|rsh-command|node-options|unzip-command|pre|pager|connection)"
)
_NOT_THAT = {"stat --context", "grep --context", "rgrep --context", "zgrep --context",
             "rg --context", "git --context", "diff --context"}  # fmt: skip
_CHOSEN_BY = (
    "DOCKER_HOST", "DOCKER_CONFIG", "DOCKER_CONTEXT", "CONTAINER_HOST", "KUBECONFIG", "GH_HOST",
    "GH_CONFIG_DIR", "GH_TOKEN", "GIT_DIR", "GIT_WORK_TREE", "GIT_EXEC_PATH", "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_COUNT", "GIT_SSH_COMMAND", "GIT_EXTERNAL_DIFF", "GIT_PAGER", "PIP_CONFIG_FILE",
    "PIP_INDEX_URL", "PIP_PYTHON", "NPM_CONFIG_USERCONFIG", "npm_config_prefix",
    "RIPGREP_CONFIG_PATH", "HTTPS_PROXY", "ALL_PROXY", "TAPE", "AWKPATH", "LD_PRELOAD", "PATH",
    "HOME",
    "XDG_CONFIG_HOME", "OPENSSL_CONF", "GCONV_PATH", "LOCPATH", "TERMINFO", "YARN_RC_FILENAME",
    "UV_PYTHON",
    "SOMETHING_NEW",
)  # fmt: skip


def _reading_lines() -> Iterator[str]:
    for row in _rows():
        if row.effect in ("none", "reads"):
            yield from row.samples[:1]


def test_an_option_that_chooses_a_host_a_configuration_or_a_program_makes_no_read() -> None:
    count = 0
    for row in _rows():
        names = row.names.partition("|")[0].split()
        top = ROWS[names[0]].options if len(names) > 1 else ""
        if row.own or row.effect not in ("none", "reads"):
            continue
        for name, option in {**grammar(top, "posix"), **_grammar(row)}.items():
            if not _CHOOSES.fullmatch(name) or option.takes == "nothing":
                continue
            if f"{names[0]} {name}" in _NOT_THAT:
                continue
            words = [names[0], name, "VALUE", *names[1:]]
            if name in _grammar(row) and not ROWS[names[0]].everywhere:
                words = [*names, name, "VALUE"]
            count += 1
            assert describe(words).effect == "runs", words
    assert count > 50


_GIVEN = (
    "{n}=x {line}", "export {n}=x; {line}", "env {n}=x {line}",
    "set -a; {n}=x; {line}", "{n}=x bash -c '{line}'", "export {n}=x; sh -c '{line}'",
    "{n}=x; export {n}; {line}", "f() {{ {line}; }}; {n}=x f",
)  # fmt: skip


def test_a_variable_that_a_line_gives_to_a_program_makes_no_read() -> None:
    lines = [one for one in _reading_lines() if "'" not in one and one.split()[0] not in BUILTINS]
    cases = [(name, form, lines[at % len(lines)]) for at, (name, form) in
             enumerate((name, form) for name in _CHOSEN_BY for form in _GIVEN)]  # fmt: skip
    cases += [(_CHOSEN_BY[at % len(_CHOSEN_BY)], form, line) for at, (line, form) in
              enumerate((line, form) for line in lines for form in _GIVEN)]  # fmt: skip
    read_only = [
        (name, form, line)
        for name, form, line in cases
        for one in read(form.format(n=name, line=line), "/ws").commands
        if one.words[:1] == (line.split()[0],) and one.effect != "runs"
    ]
    assert len(cases) > 1_000
    assert read_only == []


@pytest.mark.parametrize("value", ["C", "C.UTF-8", "de_DE.UTF-8", "Europe/Berlin", ""])
def test_a_language_or_a_time_zone_leaves_a_read_one(value: str) -> None:
    for name in ("LC_ALL", "LANGUAGE", "TZ"):
        for form in (f"{name}={value} date", f"export {name}={value}; date"):
            assert {one.effect for one in read(form).commands} == {"none"}


@pytest.mark.parametrize("value", ["../../evil", "/ws/evil", ":/ws/evil", "~/evil"])
def test_a_variable_that_is_a_file_from_elsewhere_does_not(value: str) -> None:
    for name in ("LC_ALL", "LANGUAGE", "TZ"):
        (command,) = read(f"{name}={value} date").commands
        assert command.effect == "runs"
