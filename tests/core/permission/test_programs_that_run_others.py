"""What a wrapper runs by its row is what the real wrapper runs: generated calls of each."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tillerman.core.permission.shell.parsed_script import HOLE
from tillerman.core.permission.shell.programs import StdinSource, describe

# Options with values that make the wrapper go on to its command; `stub` and `other` are programs,
# so that a grammar which is wrong about a value takes the wrong word for the command.
WRAPPERS: dict[str, tuple[str, ...]] = {
    "nohup": (),
    "nice": ("-n 5", "-n5", "--adjustment=3", "--adj 2", "-7", "-n -0"),
    "env": ("-i PATH=$P", "-u stub", "-u +", "-ustub", "--unset=other", "A=1", "B=x=y",
        "-0i PATH=$P", "-C sub", "--chdir=sub", "--chdir sub", "-v", "--ignore-signal",
        "--ignore-signal=INT"),
    "stdbuf": ("-oL", "-o L", "--output=0", "-e 0", "-i0", "--out L"),
    "setsid": ("-w", "--wait", "-fw"),
    "timeout": ("-k 5 9", "-s KILL 9", "--signal=INT 9", "--kill-after 3 9", "-v 9s",
        "--foreground 9", "--preserve 8", "-sINT -k1 7"),
    "ionice": ("-c 3", "-c3", "-t -c 2", "--class idle", "-c2 -n 5", "--classdata=4"),
    "taskset": ("1", "-c 0", "-ac 0", "--cpu-list 0"),
    "prlimit": ("--nofile=100", "-n100", "--core", "-c", "--stack=8000000 -n64"),
    "chrt": ("-o 0", "--other 0", "-b 0", "-v -o 0"),
    "setarch": ("-R", "x86_64", "x86_64 -R", "--addr-no-randomize", "x86_64 -v"),
    "linux64": ("", "-R"),
    "choom": ("-n 0 --", "--adjust=1 --", "-n1 --"),
    "flock": ("lock", "-n lock", "-w 5 lock", "-x -E 3 lock", "--timeout=3 lock", "-o lock"),
    "time": ("-p", "-f %e", "--format=%e", "-o log", "-ao log", "--output log", "-q"),
    "xargs": ("", "-n 1", "-n1", "-0", "-r", "-L 1", "-L1", "-l", "-l1", "--max-lines",
        "--max-lines=2", "-I % ", "-I%", "-i", "-i%", "--replace", "--replace=%", "-P 1", "-d ,",
        "-d,", "-s 500", "--delimiter=,", "-E x", "-e", "-ex", "--eof", "--eof=x", "-t", "-rt",
        "-a list", "-alist", "--arg-file=list", "-x", "-n 1 -P2", "--max-args 1", "-0n1"),
    "unshare": ("-r", "-rm", "--map-root-user", "-U", "-U -r"),
    "busybox": ("env", "nice", "nice -n 2", "timeout 5", "xargs", "nohup", "setsid"),
    "nsenter": ("-t 1",),
    "sudo": ("-n", "-n -u root", "-nu root", "--user=root -n", "-n -D sub", "A=1 -n", "-n A=1",
        "-nE", "-n --", "-n -g root"),
}  # fmt: skip
COMMANDS = (["stub", "a", "b"], ["stub", "-n", "other", "x"], ["stub"], ["stub", "--", "-k", "5"],
            ["stub", "%", "{}"], ["stub", "+"])  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with stubs that record their arguments."""
    root = tmp_path_factory.mktemp("wrappers")
    (root / "bin").mkdir()
    (root / "work" / "sub").mkdir(parents=True)
    (root / "work" / "list").write_text("one two\n")
    for name in ("stub", "other", "x", "a", "+", "sub", "lock", "log", "0", "9"):
        stub = root / "bin" / name
        stub.write_text(
            f"#!{shutil.which('python3', path='/usr/bin') or '/usr/bin/python3'} -IS\n"
            "import json, os, sys\n"
            f"where = os.open({str(root / 'calls')!r} + '/' + str(os.getpid()), 65, 384)\n"
            "os.write(where, json.dumps([os.path.basename(sys.argv[0]), *sys.argv[1:]]).encode())\n"
        )
        stub.chmod(0o755)
    return root


def _called(words: Sequence[str], place: Path, number: int) -> list[list[str]]:
    """Each call of a stub that the real wrapper made."""
    work = place / f"run{number}"
    shutil.copytree(place / "work", work)
    (work / "bin").mkdir()
    (work / "calls").mkdir()
    for stub in (place / "bin").iterdir():
        text = stub.read_text().replace(str(place / "calls"), str(work / "calls"))
        (work / "bin" / stub.name).write_text(text)
        (work / "bin" / stub.name).chmod(0o755)
    path = f"{work / 'bin'}:/usr/bin:/bin:/usr/sbin:/sbin"
    process = subprocess.Popen(
        [word.replace("$P", path) for word in words], cwd=work, stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        env={"PATH": path, "HOME": str(work), "LC_ALL": "C"},
    )  # fmt: skip
    try:
        process.communicate(b"in put\n", timeout=20)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # and what it started, which would stay
        process.wait()
        raise
    found = [
        json.loads(one.read_text()) for one in (work / "calls").iterdir() if one.stat().st_size
    ]
    shutil.rmtree(work)
    return found


def _predicted(words: Sequence[str]) -> tuple[list[tuple[str, ...]], bool]:
    """The innermost commands, and whether any layer is doubted."""
    found = describe(words, StdinSource())
    if not found.runs:
        return [tuple(words)], bool(found.doubts)
    inner: list[tuple[str, ...]] = []
    doubted = bool(found.doubts)
    for run in found.runs:
        commands, more = _predicted(run.words)
        inner += commands
        doubted |= more
    return inner, doubted


def _fits(predicted: Sequence[str], called: Sequence[str]) -> bool:
    """A hole matches any words, or any part of a word."""
    if not predicted:
        return not called
    head, *rest = predicted
    if head == HOLE:
        return any(_fits(rest, called[at:]) for at in range(len(called) + 1))
    if not called:
        return False
    if HOLE in head:
        before, _, after = head.partition(HOLE)
        fits = called[0].startswith(before) and called[0].endswith(after.replace(HOLE, ""))
        return fits and _fits(rest, called[1:])
    return head == called[0] and _fits(rest, called[1:])


def _calls(count: int) -> list[list[str]]:
    chooser = random.Random(13)
    installed = [
        name for name in WRAPPERS if shutil.which(name, path="/usr/bin:/bin:/usr/sbin:/sbin")
    ]
    calls = [
        [name, *options.split(), *command]
        for name in installed
        for options in WRAPPERS[name] or ("",)
        for command in COMMANDS[:2]
    ]
    while len(calls) < count:
        words: list[str] = []
        choices = [one for one in installed if one not in ("sudo", "nsenter")]
        for _ in range(chooser.randint(2, 4)):
            name = chooser.choice(choices)
            choices = [one for one in choices if one != name or name != "flock"]  # or it waits
            words += [name, *chooser.choice(WRAPPERS[name] or ("",)).split()]
        calls.append([*words, *chooser.choice(COMMANDS)])
    return calls


def _differing(calls: Sequence[list[str]], place: Path) -> tuple[int, list[object]]:
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda one: _called(one[1], place, one[0]), enumerate(calls)))
    ran = 0
    differing: list[object] = []
    for words, called in zip(calls, results, strict=True):
        predicted, doubted = _predicted(words)
        ran += bool(called)
        differing += [
            (words, one, predicted)
            for one in called
            if not doubted and not any(_fits(command, one) for command in predicted)
        ]
    return ran, differing


def test_a_wrapper_runs_what_its_row_says(place: Path) -> None:
    calls = _calls(0)
    ran, differing = _differing(calls, place)
    assert differing == []
    assert ran > len(calls) // 2  # the others were refused by the wrapper itself


@pytest.mark.torture
def test_wrappers_inside_of_wrappers_run_what_their_rows_say(place: Path) -> None:
    ran, differing = _differing(_calls(4_000), place)
    assert differing == []
    assert ran > 2_000


def test_the_calls_of_wrappers_are_mostly_certain() -> None:
    """A row that doubts everything would pass the tests above."""
    doubted = [words for words in _calls(0) if _predicted(words)[1]]
    harmless = [words for words in doubted if not {"A=1", "B=x=y"} & set(words)]
    assert len(harmless) * 10 < len(_calls(0)), harmless
