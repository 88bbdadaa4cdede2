"""Where a line writes, compared with shells that run it: generated lists, loops and functions.

The lines contain `cd`, tests that succeed or fail, and redirections that create files. Each new
file must be covered by an access, or the line counts as unread.
"""

from __future__ import annotations

import os
import posixpath
import random
import re
import resource
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from tillerman.core.permission.shell.parsed_script import ANY, HOLE, ONE, FileAccess, ParsedScript
from tillerman.core.permission.shell.reader import read

SHELLS = [name for name in ("bash", "dash") if shutil.which(name)]
SECONDS = 5  # for one line
LINES = int(os.environ.get("TILLERMAN_DIRECTORY_LINES", "120"))
MOVES = (
    "cd a", "cd b", "cd ..", "cd a/b", "cd nosuch", "cd -", "cd ./a", "cd", "CDPATH=a cd b",
    "cd b/../a", "pushd a", "popd", "pushd -n b", "pushd +1", "d=a; cd $d", "eval cd a",
    "command cd b", "x=cd; $x a", "builtin cd a", "go a", "cd $(echo b)",
    "for d in a b; do cd $d; done", "HOME=b; cd; unset HOME", "cd $PWD/a", 'cd "$OLDPWD"', "cd ~-",
    "cd ~+/b", "cd $(pwd)/a", "PWD=/nosuch", "PWD=/nosuch cd a", "OLDPWD=/nosuch", "unset PWD",
    "stale", "readonly PWD", "read PWD < /dev/null", "d=$PWD; cd a; cd $d", "cd a; PWD=$PWD/b",
)  # fmt: skip
STATUSES = ("true", "false", ":", "! true", "! false", "[ -d a ]", "[ -f nosuch ]", "test -d b")
WRITES = (
    "> {}", ": > {}", "> ./{}", "> ../{}", "x=y > a/{}", "echo x >> {}", "{{ :; }} > {}",
    "f={}; > $f", "> $PWD/{}", '> "$PWD"/{}', "> ${{PWD}}/{}", "> ~+/{}", "> $(pwd)/{}",
    "> `pwd`/{}",
    "> $OLDPWD/{}", "> ~-/{}", "d=$PWD; cd a; > $d/{}", "> ${{PWD%/*}}/{}",
    "d=$PWD; > ${{d%/*}}/{}",
    "echo $PWD/{} | xargs touch", "sh -c '> $PWD/{}'", "env -C a sh -c '> $PWD/{}'",
    "> $(pwd -P)/{}",
    'bash -c "cd a && > $PWD/{}"', "cd a && > $PWD/{}", "cd a && > $OLDPWD/{}",
    "(cd a && > $PWD/{})",
)  # fmt: skip
FORMS = (
    "{} && {}", "{} || {}", "{}; {}", "{}\n{}", "{} | {}", "({}); {}", "{{ {}; }}; {}",
    "! {}; {}", "if {}; then {}; else {}; fi", "if {}; then {}; fi; {}",
    "for i in 1 2; do {}; {}; done", "while {}; do {}; break; {}; done",
    "until {}; do {}; break; done", "case x in x) {};; *) {};; esac; {}",
    "@() {{ {}; {}; }}; @; {}", "@() {{ {}; return; {}; }}; @; {}", "g=$({}); {}",
    "{} & wait; {}", "eval '{}'; {}", "sh -c '{}'; {}", "{} && {} || {}", "{} || {} && {}",
    "trap '{}' EXIT; {}", "(exit 1) || {}", "for i in; do {}; done; {}", "{}; exit; {}",
    "{{ {}; }} | cat; {}", ": <<E\n$({})\nE\n{}", "case y in x) {};; esac; {}", "false && {}; {}",
    "true || {}; {}", "cat < nosuch && {}; {}", "set -e; {}; {}",
)  # fmt: skip


def line(seed: int) -> str:
    chance = random.Random(seed)
    files = iter(f"f{number}" for number in range(100))
    functions = iter(f"call{number}" for number in range(100))  # each its own: none calls itself

    def piece(depth: int) -> str:
        if depth and chance.random() < 0.6:
            form = chance.choice(FORMS).replace("@", next(functions))
            return form.format(*(piece(depth - 1) for _ in range(form.count("{}"))))
        kind = chance.random()
        if kind < 0.4:
            return chance.choice(MOVES)
        if kind < 0.55:
            return chance.choice(STATUSES)
        return chance.choice(WRITES).format(next(files))

    text = piece(3)
    before = "go() { cd $1; }; " if "go a" in text else ""
    return before + ("stale() { local PWD; cd a; }; " if "stale" in text else "") + text


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (2, 2))
    most = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    wanted = 2_000 if most == resource.RLIM_INFINITY else min(most, 2_000)
    resource.setrlimit(resource.RLIMIT_NPROC, (wanted, most))


def files_after(shell: str, text: str, folder: Path) -> set[str]:
    shutil.rmtree(folder, ignore_errors=True)
    work = folder / "top" / "ws"
    for name in ("a/b", "b/a", "a/a"):
        (work / name).mkdir(parents=True, exist_ok=True)
    (folder / "home").mkdir()
    with subprocess.Popen(
        [shell, "-c", text],
        cwd=work,
        env={"PATH": os.environ["PATH"], "HOME": str(folder / "home")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=_limit,  # noqa: PLW1509
    ) as process:
        try:
            process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            return set()  # it says nothing about the reader
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return {str(path) for path in folder.rglob("*") if path.is_file()}


def covers(access: FileAccess, path: str, folder: Path) -> bool:
    for base in access.directories:
        if base is None or HOLE in access.path:
            return True
        whole = posixpath.join(str(folder / "top" / "ws"), base, access.path)
        if base.startswith("~"):
            whole = posixpath.join(str(folder / "home"), base[2:], access.path)
        pattern = re.escape(posixpath.normpath(whole)).replace(ANY, "[^/]*").replace(ONE, "[^/]")
        if re.fullmatch(pattern, path):
            return True
    return False


def missed(script: ParsedScript, paths: set[str], folder: Path) -> set[str]:
    if script.unread:
        return set()
    found = [*script.redirections, *(one for each in script.commands for one in each.accesses)]
    writes = [one for one in found if one.kind == "write"]
    return {path for path in paths if not any(covers(one, path, folder) for one in writes)}


def lost_files(text: str, shell: str, folder: Path) -> set[str]:
    start = str(folder / "top" / "ws")
    return missed(read(text, start), files_after(shell, text, folder), folder)


@pytest.mark.parametrize("shell", SHELLS)
def test_every_file_that_a_line_makes_is_covered(shell: str, tmp_path: Path) -> None:
    wrong = []
    for seed in range(LINES):
        text = line(seed)
        if lost := lost_files(text, shell, tmp_path / "x"):
            wrong.append((seed, text, lost))
    assert wrong == []


def test_most_lines_make_files_and_few_are_unread(tmp_path: Path) -> None:
    """Otherwise the test above could not fail."""
    texts = [line(seed) for seed in range(30)]
    assert sum(bool(files_after(SHELLS[0], text, tmp_path / "x")) for text in texts) > 8
    assert sum(bool(read(text).unread) for text in texts) < 10


@pytest.mark.parametrize(
    "text",
    [
        "> $PWD/f", "> ~+/f", "> $(pwd)/f", '> "${PWD}"/f', "cd a && > $PWD/f", "cd a && > ~-/f",
        "cd a && > $OLDPWD/f", "d=$PWD; cd a; > $d/f", "cd a && cd .. && > $PWD/f",
        "(cd a); > $PWD/f", "sh -c '> $PWD/f'", "PWD=/nosuch; > `pwd`/f", "export PWD; > $PWD/f",
    ],
)  # fmt: skip
def test_the_working_directory_is_known_where_nothing_assigns_it(text: str) -> None:
    script = read(text, "/top/ws")
    assert script.unread == ()
    paths = {posixpath.normpath(one.path) for one in script.redirections}
    assert paths & {"/top/ws/f", "/top/ws/a/f"}
    assert not any(HOLE in path for path in paths)


@pytest.mark.torture
@pytest.mark.parametrize("shell", SHELLS)
def test_every_file_that_many_lines_make_is_covered(shell: str, tmp_path: Path) -> None:
    wrong = []
    for seed in range(1_000_000, 1_020_000):
        text = line(seed)
        if lost := lost_files(text, shell, tmp_path / "x"):
            wrong.append((seed, text, lost))
    assert wrong == []
