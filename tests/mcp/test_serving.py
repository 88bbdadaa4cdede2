"""`tillerman mcp serve` on the command line: where it can serve, and errors elsewhere."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.mcp.mcp_desk import MAX_WAIT, Machine, Wire, text
from tillerman.harness.harness import Harness, open_harness
from tillerman.paths import find_paths

pytestmark = pytest.mark.timeout(120)


def test_a_file_is_not_a_client(house: Machine) -> None:
    asked = house.project / "requests.jsonl"
    asked.write_text('{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    serve = partial(
        subprocess.run,
        house.command("mcp", "serve"),
        cwd=house.project,
        env=house.environment,
        stderr=subprocess.PIPE,
        timeout=MAX_WAIT,
    )
    with asked.open() as file:
        done = serve(stdin=file, stdout=subprocess.PIPE)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"standard input is neither a pipe nor a terminal" in done.stderr
    assert b"--http" in done.stderr
    with asked.open("a") as file:
        wrong = serve(stdin=subprocess.PIPE, stdout=file)
    assert wrong.returncode == 2 and b"standard output is neither a pipe" in wrong.stderr


@pytest.mark.parametrize("command", [("mcp", "serve"), ("acp",)], ids=" ".join)
@pytest.mark.parametrize("streams", ["<&-", ">&-", "<&- >&-", "<&- >&- 2>&-", "</dev/null"])
def test_closed_streams_are_not_a_client(
    house: Machine, streams: str, command: tuple[str, ...]
) -> None:
    done = subprocess.run(
        ["sh", "-c", f'"$@" {streams}', "sh", *house.command(*command)],
        cwd=house.project,
        env=house.environment,
        input=b"",
        capture_output=True,
        timeout=MAX_WAIT,
    )
    assert (done.returncode, done.stdout) == (2, b"")
    if "2>" not in streams:
        assert b"is neither a pipe nor a terminal" in done.stderr
        assert b"Traceback" not in done.stderr


def test_on_a_terminal_it_reports_what_it_waits_for(house: Machine) -> None:
    master, slave = pty.openpty()
    process = subprocess.Popen(
        house.command("mcp", "serve"),
        cwd=house.project,
        env=house.environment,
        stdin=slave,
        stdout=slave,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    os.close(slave)
    assert process.stderr
    with process:
        assert b"waiting for an MCP client on standard input" in process.stderr.readline()
        os.write(master, b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        output = b""
        while b'"result"' not in output:
            output += os.read(master, 65536)
        process.terminate()
        assert process.wait(MAX_WAIT) == 0
    os.close(master)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--isolation", "total"], "--isolation"),
        (["--approve", "everything"], "--approve"),
        (["--http"], "--http"),
        (["--http", "many"], "--http"),
        (["--http", "-1"], "-1"),
        (["--http", "65536"], "65536"),
        (["--request-timeout", "soon"], "--request-timeout"),
        (["--request-timeout", "-5"], "-5"),
        (["--resume", "nothing"], "nothing"),
        (["--env", "=x"], "--env"),
        (["-C", "nowhere"], "nowhere"),
        (["--nonsense"], "--nonsense"),
        (["more"], "more"),
    ],
)
def test_invalid_arguments_are_reported(house: Machine, words: list[str], said: str) -> None:
    done = house.run("mcp", "serve", *words, input=b"")
    assert done.returncode == 2, done
    assert said in done.stderr and "Traceback" not in done.stderr
    assert done.stdout == ""


# -- isolation -------------------------------------------------------------------------------------

HIDE = (
    "for each in /usr/bin/bwrap /usr/local/bin/bwrap; do"
    ' test ! -e $each || mount --bind /dev/null $each || exit; done; exec "$@"'
)


def test_where_a_level_is_unavailable_nothing_runs(machine: Machine) -> None:
    around = ["unshare", "--mount", "sh", "-c", HIDE, "sh"]
    if os.geteuid() != 0:
        around[1:1] = ["--user", "--map-root-user"]
    if not shutil.which("unshare") or subprocess.run([*around, "true"]).returncode:
        pytest.skip("mounts cannot be made here")
    wire = Wire(
        subprocess.Popen(
            [*around, *machine.command("mcp", "serve", "--approve", "auto", "--isolation", "high")],
            cwd=machine.project,
            env=machine.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    )
    try:
        wire.greet()
        for mode in ("sync", "async", "background"):
            result = wire.call("execute_shell", command="touch ran", run_mode=mode)
            assert result["isError"] and "bubblewrap (bwrap) is not installed" in text(result)
        lower = wire.call("execute_shell", command="touch ran", isolation="basic")
        assert lower["isError"] and "weaker than this session requires" in text(lower)
        assert not wire.call("write_file", path="a.txt", content="x")["isError"]
        assert [path.name for path in machine.project.iterdir()] == ["a.txt"]
        assert wire.call("list_processes")["_meta"]["tillerman/result"]["processes"] == []
    finally:
        wire.kill()


# -- plan mode -------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "project"
    folder.mkdir()
    yield folder


async def test_a_planning_client_only_reads(folder: Path, tmp_path: Path) -> None:
    paths = find_paths({"TILLERMAN_HOME": str(tmp_path / "tillerman")})
    async with open_harness(cwd=folder, paths=paths) as harness:
        assert isinstance(harness, Harness)
        session = await harness.serve(cwd=folder, approve="auto", request_timeout=0.2)
        assert session.bench
        await session.configure(mode="plan")
        (folder / "kept").write_text("kept\n")
        for tool, arguments in {
            "execute_shell": {"command": "touch made"},
            "write_file": {"path": "made", "content": "x"},
        }.items():
            done = await session.bench.call(tool, arguments)
            assert done.outcome == "denied", done.text
        assert (await session.bench.call("read_file", {"path": "kept"})).outcome == "completed"
        assert [path.name for path in folder.iterdir()] == ["kept"]
        await session.configure(mode="agent")
        done = await session.bench.call("write_file", {"path": "made", "content": "x"})
        assert done.outcome == "completed"


def test_a_client_cannot_be_prompted(machine: Machine) -> None:
    machine.greeted("--approve", "auto")
    [session] = machine.sessions()
    done = machine.run("sessions", "prompt", session["id"], "hello")
    assert done.returncode == 2
    assert "MCP client does not support prompts" in done.stderr


def test_an_agent_cannot_continue_a_clients_session(machine: Machine) -> None:
    machine.greeted("--approve", "auto").kill()
    [session] = machine.sessions()
    done = machine.run("run", "--resume", session["id"], "hello")
    assert done.returncode == 2
    assert f"tillerman mcp serve --resume {session['id']}" in done.stderr


def test_a_background_server_is_told_at_its_start_what_its_level_does_not_allow(
    machine: Machine,
) -> None:
    wire = machine.greeted("--approve", "auto", "--isolation", "medium")
    result = wire.call(
        "execute_shell", command="exec python3 -m http.server 0", run_mode="background"
    )
    if result["isError"]:
        pytest.skip(text(result))
    assert "at isolation medium it cannot listen" in text(result)
    assert '`isolation = "basic"`' in text(result)
