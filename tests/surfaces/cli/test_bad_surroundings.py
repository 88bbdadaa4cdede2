"""Every command on a machine with a fault: a clear error, and no leftovers.

The commands come from the parser, so that a new one is tested too.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import pytest

from tests.stand_ins.warm_python import run_tillerman
from tests.surfaces.conftest import Terminal
from tillerman.surfaces.cli.parsing.argparse_errors import subcommands
from tillerman.surfaces.cli.parsing.parser import build

VALUES = {
    "prompt": '[{"say": "Hello."}]', "key": "agent", "value": "mock", "agents": "claude",
    "agent": "claude", "event": "PreToolUse", "number": "1", "wait": "1", "since": "1",
}  # fmt: skip
WAITS = ("requests watch",)  # until it is interrupted
NOT_UTF8 = os.fsdecode(b"caf\xe9")
NOT_CLEAR = ("this is a bug", "Traceback", "Exception ignored", "Errno")
CLEAR = re.compile(r"(error|tillerman): .{8,}")


@dataclass(frozen=True)
class Command:
    """Its arguments, with a value for each required one."""

    words: tuple[str, ...]
    parser: argparse.ArgumentParser = field(compare=False)

    def line(self) -> list[str]:
        line = list(self.words)
        for action in self.parser._actions:
            if "--agent" in action.option_strings:
                line += ["--agent", "mock"]
            elif action.required and action.option_strings:
                line += [action.option_strings[-1], _value(action)]
            elif action.dest in ("yes", "wait"):
                line += [action.option_strings[-1], *(["1"] if action.dest == "wait" else [])]
            elif not action.option_strings and (action.nargs != "?" or action.dest == "prompt"):
                line.append(_value(action))
        return line

    def lines_with(self, bad: str) -> Iterator[list[str]]:
        """One for each argument and each option with a value."""
        line = self.line()
        for place in range(len(self.words), len(line)):
            if not line[place].startswith("-"):
                yield [*line[:place], bad, *line[place + 1 :]]
        for action in self.parser._actions:
            if action.option_strings and action.nargs != 0:
                yield [*line, f"{action.option_strings[-1]}={bad}"]


def _value(action: argparse.Action) -> str:
    if action.choices:
        return str(next(iter(action.choices)))
    return VALUES.get(action.dest, "x")


def _leaves(parser: argparse.ArgumentParser, words: tuple[str, ...] = ()) -> Iterator[Command]:
    if not (below := subcommands(parser)):
        yield Command(words, parser)
    for name, command in below.items():
        yield from _leaves(command, (*words, name))


COMMANDS = {" ".join(command.words): command for command in _leaves(build())}


@dataclass
class Machine:
    """A home, a project and a folder for temporary files; new files in them are detected."""

    base: Path
    wrapper: tuple[str, ...] = ()
    stdout: Path | None = None
    cwd: Path = Path()
    home: str = ""

    def __post_init__(self) -> None:
        for name in ("home", "project", "tmp"):
            (self.base / name).mkdir()
        (self.base / "project/.tillerman").mkdir()
        (self.base / "project/.tillerman/config.toml").write_text("")
        (self.base / "project/x").write_text("x = 1\n")
        self.cwd = self.base / "project"
        self.home = str(self.base / "home")

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PATH": f"{os.environ['PATH'].partition(':')[0]}:/usr/bin:/bin",
            "HOME": self.home,
            "TMPDIR": str(self.base / "tmp"),
        }

    def run(self, line: list[str]) -> subprocess.CompletedProcess[str]:
        piped = b"" if line[:2] == ["mcp", "serve"] else None
        return run_tillerman(
            line,
            cwd=self.cwd,
            env=self.environment,
            wrapper=self.wrapper,
            stdout=self.stdout,
            input=piped,
        )

    def files(self) -> list[str]:
        return sorted(str(path.relative_to(self.base)) for path in self.base.rglob("*"))


Condition = Callable[[Machine], None]


def home_is_relative(machine: Machine) -> None:
    machine.home = "some/home"


def current_folder_is_gone(machine: Machine) -> None:
    gone = machine.base / "gone"
    gone.mkdir()
    folder = os.open(gone, os.O_RDONLY)
    gone.rmdir()
    machine.cwd = Path(f"/proc/{os.getpid()}/fd/{folder}")


def home_may_not_be_written(machine: Machine) -> None:
    (machine.base / "home").chmod(0o555)
    if os.geteuid() == 0:
        if not shutil.which("setpriv"):
            pytest.skip("no setpriv to take root's rights away")
        machine.wrapper = ("setpriv", "--bounding-set=-dac_override")


def home_is_on_a_read_only_file_system(machine: Machine) -> None:
    place = Path("/mnt")
    mounting = f'mount -t tmpfs -o ro none {place} && exec "$@"'
    wrapper = ("unshare", "--mount", "sh", "-c", mounting, "sh")
    if subprocess.run([*wrapper, "true"], capture_output=True).returncode:
        pytest.skip("no mount namespace to mount a read-only file system in")
    machine.wrapper, machine.home = wrapper, str(place)


def home_is_a_file(machine: Machine) -> None:
    (machine.base / "home").rmdir()
    (machine.base / "home").write_text("")


def output_cannot_be_written(machine: Machine) -> None:
    machine.stdout = Path("/dev/full")


CONDITIONS: dict[Condition, str] = {  # text in the error of a command that cannot work then
    home_is_relative: "error: HOME is not an absolute path: some/home",
    current_folder_is_gone: "error: the current folder no longer exists",
    home_may_not_be_written: "Permission denied",
    home_is_on_a_read_only_file_system: "Read-only file system",
    home_is_a_file: "Not a directory",
    output_cannot_be_written: "error: the output could not be written: No space left on device",
}
THROUGH_IT = {  # commands that must have met the condition, and so must tell of it
    home_is_relative: ("run", "sessions list", "agents", "config set", "doctor", "trust", "demo"),
    current_folder_is_gone: tuple(name for name in COMMANDS if name not in ("hook", "schema")),
    home_may_not_be_written: ("run", "sessions list", "config set", "trust", "hooks install"),
    home_is_on_a_read_only_file_system: ("run", "config set", "trust", "hooks install", "demo"),
    home_is_a_file: ("run", "sessions list", "config set", "trust", "hooks install", "demo"),
    output_cannot_be_written: ("run", "agents", "config set", "schema", "doctor", "policy check"),
}


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    yield Machine(tmp_path)
    if (tmp_path / "home").is_dir():
        (tmp_path / "home").chmod(0o755)


def check(machine: Machine, condition: Condition, name: str) -> None:
    condition(machine)
    before = machine.files()
    done = machine.run(COMMANDS[name].line())
    seen = f"{name}: exit {done.returncode}\n{done.stdout[-500:]}\n{done.stderr}"
    assert not [words for words in NOT_CLEAR if words in done.stderr], seen
    if name in THROUGH_IT[condition]:
        assert done.returncode in (1, 2), seen
        assert CONDITIONS[condition] in done.stderr, seen
    elif done.returncode:
        reported = done.stderr.strip().splitlines() or done.stdout.strip().splitlines()
        assert CLEAR.match(reported[0]) or name in ("doctor", "sessions search"), seen
    if condition is not output_cannot_be_written:
        assert machine.files() == before, seen


def sampled(names: list[str], *, one_in: int) -> list[object]:
    """All of them in the long form, otherwise one in so many."""
    long = pytest.mark.torture
    return [pytest.param(name, marks=[long] if n % one_in else []) for n, name in enumerate(names)]


def pairs() -> list[object]:
    found = []
    for n, (condition, name) in enumerate(product(CONDITIONS, COMMANDS)):
        short = name in THROUGH_IT[condition][:3] or not n % 11
        marks = [] if short else [pytest.mark.torture]
        id = f"{condition.__name__}-{name.replace(' ', '_')}"
        if name not in WAITS:
            found.append(pytest.param(condition, name, id=id, marks=marks))
    return found


@pytest.mark.parametrize(("condition", "name"), pairs())
def test_a_command_reports_the_error_and_leaves_nothing_behind(
    machine: Machine, condition: Condition, name: str
) -> None:
    check(machine, condition, name)


STORING = [name for name in COMMANDS if name.split()[0] in ("config", "hooks", "run", "trust")]


@pytest.mark.parametrize("name", [*STORING, "agents", "demo", "sessions list", "requests list"])
def test_the_folders_that_a_command_creates_are_private(machine: Machine, name: str) -> None:
    machine.run(COMMANDS[name].line())
    machine.run(["run", "-a", "mock", '[{"say": "Hello."}]'])
    folders = [path for path in (machine.base / "home").rglob("*") if path.is_dir()]
    open_to_others = [str(path) for path in folders if path.stat().st_mode & 0o077]
    assert (bool(folders), open_to_others) == (True, [])
    assert "accessible to other users" not in machine.run(["doctor"]).stdout


@pytest.mark.parametrize("name", sampled(list(COMMANDS), one_in=8))
def test_an_argument_that_is_not_utf8_is_refused_in_any_position(
    machine: Machine, name: str
) -> None:
    before = machine.files()
    for line in COMMANDS[name].lines_with(NOT_UTF8):
        done = machine.run(line)
        place = next(n for n, word in enumerate(line, start=1) if NOT_UTF8 in word)
        word = line[place - 1].replace(NOT_UTF8, "caf\\xe9")
        reported = done.stderr.splitlines()[0]
        assert (done.returncode, reported) == (2, f"error: argument {place} is not UTF-8: {word}")
    assert machine.files() == before


@pytest.mark.parametrize("name", sampled(list(COMMANDS), one_in=8))
def test_help_that_cannot_be_written_is_an_error(machine: Machine, name: str) -> None:
    output_cannot_be_written(machine)
    done = machine.run([*COMMANDS[name].words, "--help"])
    message = "error: the output could not be written: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, message)


@pytest.mark.parametrize("line", ["--help", "run --help", "sessions", "schema", "--version"])
def test_unbuffered_output_that_cannot_be_written_is_an_error(tmp_path: Path, line: str) -> None:
    env = {"HOME": str(tmp_path), "PYTHONUNBUFFERED": "1"}
    with Path("/dev/full").open("wb") as full:
        words = [sys.executable, "-m", "tillerman", *line.split()]
        done = subprocess.run(words, cwd=tmp_path, env=env, stdout=full, stderr=subprocess.PIPE)
    result = b"error: the output could not be written: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, result)


@pytest.mark.parametrize(
    "condition", [home_may_not_be_written, home_is_on_a_read_only_file_system, home_is_a_file]
)
def test_doctor_reports_where_nothing_can_be_written(
    machine: Machine, condition: Condition
) -> None:
    condition(machine)
    done = machine.run(["doctor", "--json", "--wait", "1"])
    findings = json.loads(done.stdout)
    own = [one for one in findings if ".local/state" in one["text"] or ".cache" in one["text"]]
    assert (done.returncode, {one["level"] for one in own}) == (1, {"bad"}), own
    assert {one["about"] for one in own} == {"store", "files"}


@pytest.mark.parametrize("condition", [home_is_relative, home_may_not_be_written, home_is_a_file])
def test_the_terminal_interface_reports_it_as_well(machine: Machine, condition: Condition) -> None:
    condition(machine)
    before = machine.files()
    command = [*machine.wrapper, sys.executable, "-m", "tillerman", "tui", "-a", "mock"]
    terminal = Terminal(command, machine.cwd, {**machine.environment, "TERM": "xterm-256color"})
    try:
        assert terminal.end() in (1, 2)
    finally:
        terminal.process.kill()
        terminal.close()
    assert CONDITIONS[condition] in terminal.text
    assert not [words for words in NOT_CLEAR if words in terminal.text], terminal.text
    assert machine.files() == before
