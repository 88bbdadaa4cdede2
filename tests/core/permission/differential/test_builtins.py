"""Generated calls of shell builtins: a line that makes bash or dash run `rm` is not allowed."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator

import pytest

from tests.core.permission.shell_stage import ALLOWING, DENYING, Stage, verdict

_LINES = 250  # in each shell; `make torture` runs more
_SHELLS = [shell for shell in ("bash", "dash") if shutil.which(shell)]
# Options that may be inserted before the arguments, and the arguments.
_BUILTINS: dict[str, tuple[str, tuple[str, ...]]] = {
    "set": ("- -- + -e -f +e -o pipefail -u -k -a -p -m -o -ef -eo +o posix -h -T -B -C",
            ("rm", "- rm", "-- rm", "a rm", "-e - rm", "-- - rm", "rm - x", "x=rm", "-- -rrm")),
    "shopt": ("-s -u -o -so -uo -q -p -s extdebug -s lastpipe -s expand_aliases -s nullglob",
              ("history histexpand", "expand_aliases", "lastpipe", "cdable_vars")),
    "printf": ("-v x -vx -v a[1] -- -v REPLY", ("rm", "%s rm", "'%b' '\\x72m'", "'\\162m'", "%s r m")),
    "read": ("-r -a a -p p -d m -n2 -N 2 -t 1 -u 0 -s -e -i q --",
             ("x <<< rm", "<<< rm", "x y <<< 'q rm'", "-a a <<< 'rm x'", "-u3 x 3<<< rm", "x <<E\nrm\nE\n")),
    "mapfile": ("-t -O 1 -c 1 -n 1 -s 0 -u 0 -d '' -C 'rm x' -C'rm x' -tC rm -c1",
                ("a <<< rm", "<<< rm", "a <<< 'rm x'")),
    "readarray": ("-t -C 'rm x' -c 1", ("a <<< rm",)),
    "history": ("-c -s -p -w -a -n -d 1", ("'rm x'", "rm x", "'!!'", "hist")),
    "fc": ("-l -s -e - -e true -n -r -el -e 'rm x' -lr", ("", "-1", "rm=rm", "1 2")),
    "trap": ("-- -p -l -", ("'rm x' EXIT", "'rm x' 0", "'rm x' DEBUG", "'rm x' USR1", "rm EXIT INT",
             "'x=rm' DEBUG", "'rm x' ERR", "'rm x' RETURN", "- EXIT", "'rm x' SIGUSR1 2")),
    "alias": ("-p --", ("x=rm", "x='rm '", "echo=rm", "x=rm y=rm", "x='command '")),
    "unalias": ("-a", ("x", "echo", "rm")),
    "hash": ("-r -d -t -l -p ../bin/rm -p../bin/rm -rp ../bin/rm", ("x", "echo", "true", "")),
    "getopts": ("", ("r: x -r rm", "r: x -rrm", "rm x -m", ":r x -q", "r: x")),
    "let": ("--", ("'x=a[$(rm x)]'", "x=1", "'a[$(rm x)]'", "y=x", "'x=y'")),
    "declare": ("-x -g -l -u -i -r -a -A -n -t -- +x -f -p",
                ("x=rm", "x=RM", "y=x", "'a=(rm)'", "x", "'a[0]=rm'", "'x=a[$(rm x)]'", "r=x")),
    "typeset": ("-x -l -n", ("x=rm", "y=x")),
    "local": ("-x -l -n - --", ("x=rm", "x=RM", "y=x", "x")),
    "export": ("-n -p -f --", ("x=rm", "x", "y=x", "x=$(echo rm)")),
    "readonly": ("-p -a --", ("x=rm", "x", "'a=(rm)'")),
    "unset": ("-f -v -n --", ("x", "rm", "echo", "'a[$(rm x)]'", "f", "'a[0]'")),
    "eval": ("--", ("rm x", "'rm x'", "r''m x", "'$x y'", "set - rm", "'x=rm'", "x=rm")),
    "exec": ("-a n -c -l -la n -cl -- -an -ca n", ("rm x", "3<<< rm", "sh -c 'rm x'", "< /dev/null")),
    "command": ("-v -V --", ("rm x", "eval rm x", "set - rm", "exec rm x", "command rm x", "x=rm")),
    "builtin": ("--", ("eval rm x", "command rm x", "set - rm", "exec rm x", "printf -v x rm")),
    "enable": ("-n -a -p -s -d", ("echo", "eval", "test", "rm", "true")),
    "ulimit": ("-S -H -n -a", ("64", "", "'a[$(rm x)]'")),
    "umask": ("-S -p", ("022", "", "'a[$(rm x)]'")),
    "wait": ("-n -f -p x", ("", "$!", "'a[$(rm x)]'", "%1")),
    "bind": ("-l -v -p -x -q", ("'\"a\": rm x'", "'\"a\":\"rm x\\n\"'")),
    "complete": ("-C 'rm x' -W a -F f -p -r -D -A file", ("x", "f")),
    "compgen": ("-C 'rm x' -C'rm x' -W '$(rm x)' -F f -A file -P p -S s -X '$(rm x)' -o nospace "
                "-aC 'rm x' -G '$(rm x)' -W a -V a", ("x", "", "-- x")),
    "pushd": ("-n --", ("/", "+0", "..", "'a[$(rm x)]'")),
    "popd": ("-n", ("", "+0")),
    "jobs": ("-l -x -p -r --", ("rm x", "-x rm x", "")),
    "shift": ("--", ("", "1", "'a[$(rm x)]'", "2", "0")),
    "test": ("", ("-v 'a[$(rm x)]'", "'a[$(rm x)]' -eq 1", "-n x", "-R x")),
    ".": ("--", ("/dev/stdin <<< 'rm x'", "./q", "/dev/fd/0 <<E\nrm x\nE\n")),
    "kill": ("-USR1 -s USR1 -INT", ("$$",)),
    "return": ("", ("", "1")),
    "times": ("", ("",)),
}  # fmt: skip
_USES = (
    *("$1 x", "$2 x", '"$1" y', '"$@"', "$x y", '"$x" y', "$REPLY y", "$y x", "${a[0]} x", "${a[1]} x"),
    *("$a x", "${a[@]} x", "$OPTARG x", "${MAPFILE[0]} x", "x y", "echo y", "rm x", "f x", "fc -s", "!!"),
    *("shift; $1 x", "eval $x y", "eval '$1 x'", "read -u3 x; $x y", "kill -USR1 $$", "declare -p x"),
    *("sh -c '$x y'", "bash -c '$x y'", "(( x ))", "echo $((y))", "set - $x; $1 y", "history -w", "true"),
    *("echo rm | read x; $x y", "(exit 1)", "f() { rm x; }; f", "${!r} x", "$r x", "unset x; $x rm x"),
)  # fmt: skip
_BEFORE = (
    *([""] * 8), "x=rm; ", "x=echo; ", "set -- a rm; ", "shopt -s expand_aliases\n", "a=(q rm); ",
    "set -o history\n", "f() { rm x; }; ", "rm() { :; }; ", "declare -n r=x; ", "set -- -r rm; ", "y=rm; ",
)  # fmt: skip
_PREFIXES = (*([""] * 6), "command ", "builtin ", "eval ", "\\", "command command ", "! ", "time ")


def _generated(seed: int) -> Iterator[str]:
    draw = random.Random(seed)
    names = list(_BUILTINS)
    while True:
        calls = []
        for _ in range(draw.choice((1, 1, 2))):
            name = draw.choice(names)
            flags, forms = _BUILTINS[name]
            chosen = draw.choices(_flags(flags), k=draw.choice((0, 0, 1, 1, 2))) if flags else []
            call = " ".join([name, *chosen, draw.choice(forms)])
            call = draw.choice(_PREFIXES) + call
            calls.append(f"g() {{ {call}\n}}; g rm x" if draw.random() < 0.15 else call)
        separator = draw.choice(("; ", "; ", "\n", " && ", " || "))
        if any("<<E" in call for call in calls):
            separator = "\n"
        yield draw.choice(_BEFORE) + separator.join([*calls, draw.choice(_USES)])


def _flags(text: str) -> list[str]:
    """Options with their values: `-C 'rm x'` is one."""
    found: list[str] = []
    quoted = False
    for word in text.split(" "):
        is_value = quoted or (found and word[:1] not in "-+")
        if is_value:
            found[-1] += f" {word}"
        else:
            found.append(word)
        quoted ^= word.count("'") % 2 == 1
    return found


def _allowed(shell: str, stage: Stage, seed: int, count: int) -> tuple[list[str], int]:
    """Lines that ran `rm` although a policy allows them; and the number of lines that ran it."""
    wrong, ran = [], 0
    for line, _ in zip(_generated(seed), range(count), strict=False):
        if stage.runs_rm(shell, line):
            ran += 1
            if "allow" in (verdict(DENYING, line), verdict(ALLOWING, line)):
                wrong.append(line)
    return wrong, ran


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    return Stage(tmp_path_factory.mktemp("builtins"))


@pytest.mark.parametrize("shell", _SHELLS)
def test_no_generated_call_of_a_builtin_runs_what_is_denied(shell: str, stage: Stage) -> None:
    wrong, ran = _allowed(shell, stage, 0, _LINES)
    assert wrong == []
    assert ran > _LINES // 20


@pytest.mark.torture
@pytest.mark.parametrize("shell", _SHELLS)
def test_no_call_among_many_of_a_builtin_runs_what_is_denied(shell: str, stage: Stage) -> None:
    wrong, _ = _allowed(shell, stage, random.randrange(10**6), 20_000)
    assert wrong == []


@pytest.mark.parametrize(
    "line",
    [
        "set - rm; $1 -rf y",
        "set -e - rm; $1 zz",
        "set -o pipefail - rm; $1 zz",
        "shopt -so history histexpand\nhistory -s 'rm x'\n!!",
        "shopt -o -s history histexpand\nhistory -s 'rm x'\n!!",
        "set -o history; history -s rm x; fc -el",
        "jobs -r -x rm x",
        "compgen -C'rm x' x",
    ],
)
def test_a_builtin_that_changes_what_runs_is_not_allowed(line: str) -> None:
    assert verdict(DENYING, line) != "allow"


def test_the_history_file_of_an_array_is_its_first_element() -> None:
    line = "HISTFILE=(.mcp.json b); history -w"
    assert verdict(DENYING, line) != "allow"
