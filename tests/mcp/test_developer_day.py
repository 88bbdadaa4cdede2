"""A developer's day at each level: what works, and what names the setting that allows it.

The table of it in docs/workspace.md is made by `TILLERMAN_SNAPSHOTS=accept .venv/bin/pytest
tests/mcp/test_developer_day.py`.
"""

from __future__ import annotations

import importlib.util
import io
import os
import shutil
import socket
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.mcp.mcp_desk import Machine, Wire, text, until

pytestmark = pytest.mark.timeout(300)

LEVELS = ("basic", "medium", "high")
DOCUMENT = Path(__file__).parents[2] / "docs/workspace.md"
BEGIN, END = "<!-- developer's day: generated -->\n", "<!-- end -->"
WORKS, NEEDS, LOST = "works", 'needs `isolation = "basic"`', "is gone when the command ends"

GIT = "git -c user.name=A -c user.email=a@b.c"
PIP = "venv/bin/pip -q --disable-pip-version-check --retries 0 --timeout 2 install"
GET = "python3 -c \"import urllib.request as u; u.urlopen('http://127.0.0.1:{port}/', timeout=5)\""
SERVER = "python3 -m http.server --bind 127.0.0.1 {port}"


class Task(NamedTuple):
    """`{outside}` is a folder beside the workspace, `{port}` one that nobody listens on."""

    name: str
    command: str
    is_slow: bool = False
    leaves: str = ""  # a path outside the workspace that is to be there afterwards


TASKS = (
    Task(
        "`git init`, `add`, `commit`, `config`, `remote add`",
        f"git init -q repo && cd repo && echo x > a && git add -A && {GIT} commit -qm one"
        " && git config user.name B && git remote add other ../elsewhere.git",
    ),
    Task(
        "`git clone`, `commit`, `push -u` in the workspace",
        "git init -q --bare origin.git && git clone -q origin.git copy && cd copy && echo x > a"
        f" && git add a && {GIT} commit -qm one && git push -qu origin HEAD",
    ),
    Task("`git push` to a repository elsewhere", "cd copy && git push -q {outside}/bare.git HEAD"),
    Task(
        "`git worktree add` in the workspace, a commit there",
        "cd copy && git worktree add -q ../tree && cd ../tree && echo y > b && git add b"
        f" && {GIT} commit -qm two",
    ),
    Task(
        "`git worktree add` elsewhere",
        "cd copy && git worktree add -q {outside}/other",
        leaves="other",
    ),
    Task(
        "`python -m venv`, `pip install` of a wheel",
        f"python3 -m venv venv && {PIP} --no-index wheels/*.whl && venv/bin/python -c 'import s'",
        is_slow=True,
    ),
    Task(
        "`pip install` from an index on this machine",
        f"{PIP} --index-url http://127.0.0.1:{{index}}/ s2 && venv/bin/python -c 'import s2'",
        is_slow=True,
    ),
    Task(
        "`npm install` of a tarball",
        "cd web && npm install --silent --no-audit --no-fund ../s.tgz && node -e 'require(\"s\")'",
        is_slow=True,
    ),
    Task(
        "`pytest`, without plugins that open a socket",
        "cd checks && PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 PYTHONPATH=../vendor python3 -m pytest -q",
    ),
    Task("`make`", "cd built && make -s && ./hello"),
    Task("a file in the home, `mktemp`", 'echo x > ~/x && cat ~/x && rm "$(mktemp)"'),
    Task("a file in `/tmp` by its name", "echo x > /tmp/$$.x && rm /tmp/$$.x"),
    Task(
        "a server and its client in one command",
        f"{SERVER} 2> log & for i in 1 2 3 4 5 6 7 8; do sleep 0.5; {GET} && exit 0; done;"
        " cat log >&2; exit 1",
    ),
)
BY_ANOTHER = "a dev server, reached by another command"
FROM_OUTSIDE = "a dev server, reached from outside"


def wheel(path: Path, name: str) -> Path:
    about = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(path / f"{name}-1.0-py3-none-any.whl", "w") as file:
        file.writestr(f"{name}.py", "")
        file.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        file.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\n")
        file.writestr(f"{about}/RECORD", "")
    return path


def furnish(machine: Machine) -> None:
    here = machine.project
    for name in ("wheels", "web", "checks", "vendor", "built"):
        (here / name).mkdir()
    wheel(here / "wheels", "s")
    with tarfile.open(here / "s.tgz", "w:gz") as file:
        for name, content in (
            ("package.json", b'{"name":"s","version":"1.0.0"}'),
            ("index.js", b""),
        ):
            info = tarfile.TarInfo(f"package/{name}")
            info.size = len(content)
            file.addfile(info, io.BytesIO(content))
    (here / "web/package.json").write_text('{"name": "web", "version": "1.0.0"}')
    (here / "checks/test_x.py").write_text("def test_x(tmp_path):\n    (tmp_path / 'a').touch()\n")
    for package in ("_pytest", "pytest", "pluggy", "iniconfig", "packaging", "pygments"):
        spec = importlib.util.find_spec(package)
        assert spec and spec.origin
        shutil.copytree(Path(spec.origin).parent, here / "vendor" / package)
    (here / "built/Makefile").write_text("hello: hello.sh\n\tcp hello.sh hello\n\tchmod +x hello\n")
    (here / "built/hello.sh").write_text("#!/bin/sh\necho hello\n")
    outside = machine.folder / "outside"
    outside.mkdir()
    subprocess.run(["git", "init", "-q", "--bare", outside / "bare.git"], check=True)


@contextmanager
def index(machine: Machine) -> Iterator[int]:
    """An index of packages, as a server on loopback."""
    folder = machine.folder / "index/s2"
    folder.mkdir(parents=True)
    wheel(folder, "s2")
    port = free_port()
    words = ["python3", "-m", "http.server", "--bind", "127.0.0.1", str(port)]
    server = subprocess.Popen(words, cwd=folder.parent, stderr=subprocess.DEVNULL)
    try:
        until(lambda: answers(port))
        yield port
    finally:
        server.kill()
        server.wait()


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return False
    return True


def outcome(result: dict[str, object]) -> str:
    """Whatever does not work has to name the setting."""
    said = text(result)
    if not result["isError"]:
        return WORKS
    assert 'isolation = "basic"' in said and "--isolation basic" in said, said
    return NEEDS


def day(machine: Machine, level: str, *, slow: bool) -> dict[str, str]:
    furnish(machine)
    wire = machine.greeted("--approve", "auto", "--isolation", level, "--request-timeout", "1")
    first = wire.call("execute_shell", command="true")
    if first["isError"] and "isolation" in text(first):
        pytest.skip(text(first))
    found = {}
    with index(machine) as packages:
        for number, task in enumerate(TASKS):
            if task.is_slow and not slow:
                continue
            words = {"outside": machine.folder / "outside", "port": free_port(), "index": packages}
            command = task.command
            for name, value in words.items():
                command = command.replace(f"{{{name}}}", str(value))
            # in a file: what the policy asks about it asks at every level
            (machine.project / f"task{number}").write_text(command)
            done = wire.call("execute_shell", command=f"sh task{number}", timeout=25)
            found[task.name] = outcome(done)
            if task.leaves and not (machine.folder / "outside" / task.leaves).exists():
                found[task.name] = LOST if found[task.name] == WORKS else found[task.name]
    return found | serve(wire)


def serve(wire: Wire) -> dict[str, str]:
    port = free_port()
    began = wire.call("execute_shell", command=SERVER.format(port=port), run_mode="background")
    process = began["_meta"]["tillerman/result"]["process_id"]
    until(lambda: answers(port) or _is_up_or_down(wire, process))
    another = outcome(wire.call("execute_shell", command=GET.format(port=port)))
    outside = WORKS if answers(port) else NEEDS
    if outside == NEEDS:
        assert 'isolation = "basic"' in text(began)
    wire.call("kill_process", process_id=process)
    return {BY_ANOTHER: another, FROM_OUTSIDE: outside}


def _is_up_or_down(wire: Wire, process: str) -> bool:
    """It has ended, or a process in its own network listens."""
    how = wire.call("poll_process", process_id=process, wait_ms=500)["_meta"]["tillerman/result"]
    return how["status"] != "running" or how["isolation"] == "high"


def table(days: dict[str, dict[str, str]]) -> str:
    lines = [f"| | {' | '.join(LEVELS)} |", "| --- | --- | --- | --- |"]
    lines += [
        f"| {name} | {' | '.join(days[level][name] for level in LEVELS)} |"
        for name in days["basic"]
    ]
    return "\n".join(lines) + "\n"


def documented() -> dict[str, dict[str, str]]:
    body = DOCUMENT.read_text().partition(BEGIN)[2].partition(END)[0]
    rows = [line.strip("|\n").split(" | ") for line in body.splitlines()[2:]]
    return {
        level: {row[0].strip(): row[at].strip() for row in rows}
        for at, level in enumerate(LEVELS, 1)
    }


@pytest.mark.parametrize("level", ["medium", "high"])
def test_the_quick_part_of_a_day_is_as_documented(machine: Machine, level: str) -> None:
    found = day(machine, level, slow=False)
    assert found == {name: documented()[level][name] for name in found}


@pytest.mark.torture
def test_a_whole_day_is_as_documented(tmp_path_factory: pytest.TempPathFactory) -> None:
    days = {}
    for level in LEVELS:
        machine = Machine(tmp_path_factory.mktemp(level))
        try:
            days[level] = day(machine, level, slow=True)
        finally:
            machine.close()
    if os.environ.get("TILLERMAN_SNAPSHOTS") == "accept":
        before, _, rest = DOCUMENT.read_text().partition(BEGIN)
        DOCUMENT.write_text(before + BEGIN + table(days) + END + rest.partition(END)[2])
    assert days == documented()
