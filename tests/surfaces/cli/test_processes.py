"""`tillerman ps`, `logs` and `kill`, with commands of a session that another process serves."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.surfaces.conftest import Bench, wait_for_line
from tillerman.harness.harness import open_harness
from tillerman.paths import find_paths
from tillerman.sessions.session import Session
from tillerman.supervision.linux.process_table import ancestors, find
from tillerman.surfaces.cli.parsing.argparse_errors import parse
from tillerman.surfaces.cli.parsing.parser import build


@pytest.fixture
async def served(bench: Bench) -> AsyncIterator[Session]:
    paths = find_paths(bench.environment)
    async with open_harness(cwd=bench.project, paths=paths) as harness:
        yield await harness.serve(cwd=bench.project, approve="auto")


async def start(session: Session, command: str, mode: str = "background") -> str:
    assert session.bench
    done = await session.bench.call("execute_shell", {"command": command, "run_mode": mode})
    assert done.outcome == "completed", done.text
    return str(done.data["process_id"])


async def run(bench: Bench, *words: str) -> subprocess.CompletedProcess[str]:
    return await asyncio.to_thread(bench.run, *words)


async def rows(bench: Bench, *words: str) -> list[dict[str, Any]]:
    return list(json.loads((await run(bench, "ps", "--json", *words)).stdout))


async def ended(bench: Bench, process: str) -> dict[str, Any]:
    for _ in range(50):
        (row,) = [row for row in await rows(bench, "--all") if row["id"] == process]
        if row["status"] not in ("starting", "running"):
            return row
    raise AssertionError(f"{process} did not end")


def lives(pid: int) -> bool:
    found = find(pid)
    return found is not None and not found.dead


async def test_at_first_nothing_runs(bench: Bench) -> None:
    assert (await run(bench, "ps")).stdout.startswith("no running commands")
    assert (await run(bench, "ps", "--all")).stdout == "no commands\n"
    assert await rows(bench) == []


async def test_running_processes_are_listed_for_people_and_programs(
    bench: Bench, served: Session
) -> None:
    first = await start(served, "echo said; echo wrong >&2; exec sleep 60")
    failed = await start(served, "exit 3")
    await ended(bench, failed)
    head, line = (await run(bench, "ps")).stdout.splitlines()
    assert head.split() == ["PROCESS", "SESSION", "STATUS", "BEGAN", "OUTPUT", "COMMAND"]
    assert line.split()[:3] == [first, served.id, "running"]
    assert "11 B" in line
    assert line.endswith("  echo said; echo wrong >&2; exec sleep 60")
    everything = (await run(bench, "ps", "--all")).stdout
    assert "failed (3)" in everything
    (row,) = await rows(bench)
    assert row["id"] == first
    assert (row["status"], row["stdout_bytes"], row["stderr_bytes"]) == ("running", 5, 6)
    assert lives(row["pid"])
    assert "warden" not in row
    assert Path(row["folder"], "stdout").read_text() == "said\n"


async def test_processes_of_one_session_can_be_listed(bench: Bench, served: Session) -> None:
    process = await start(served, "sleep 60")
    assert [row["id"] for row in await rows(bench, "--session", served.id[:6])] == [process]
    unknown = await run(bench, "ps", "--session", "zzz")
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert "no session matches" in unknown.stderr


async def test_output_is_printed_unchanged(bench: Bench, served: Session) -> None:
    process = await start(served, r"printf 'a\033[31mb\377\n'; seq 5; echo oops >&2")
    await ended(bench, process)
    words = bench.command("logs", process[:6])
    done = await asyncio.to_thread(
        subprocess.run, words, cwd=bench.project, env=bench.environment, capture_output=True
    )
    assert done.returncode == 0
    assert done.stdout == b"a\x1b[31mb\xff\n1\n2\n3\n4\n5\n"
    assert done.stderr == b"oops\n"
    assert (await run(bench, "logs", process, "-n", "2", "--stdout")).stdout == "4\n5\n"
    errors = await run(bench, "logs", process, "--stderr")
    assert (errors.stdout, errors.stderr) == ("oops\n", "")
    assert (await run(bench, "logs", process, "-n", "0")).stdout == ""


async def test_a_terminal_gets_no_control_sequence_of_a_command(
    bench: Bench, served: Session
) -> None:
    process = await start(served, r"printf 'a\033]52;c;ZXZpbA==\007b\033[2Jc\n'")
    await ended(bench, process)
    terminal = bench.terminal("logs", process)
    code = await asyncio.to_thread(terminal.end)
    assert (code, terminal.raw) == (0, b"abc\r\n")


async def test_following_ends_with_the_command(bench: Bench, served: Session) -> None:
    os.mkfifo(bench.project / "words")
    process = await start(served, "echo one; cat words; cat words; exit 0")
    follower = bench.start("logs", process, "-f")
    assert await asyncio.to_thread(wait_for_line, follower, "one")
    for text in ("two\n", "three\n"):
        await asyncio.to_thread((bench.project / "words").write_text, text)
        assert await asyncio.to_thread(wait_for_line, follower, text.strip())
    assert await asyncio.to_thread(follower.wait, 15) == 0


@pytest.mark.parametrize(("command", "code"), [("exit 0", 0), ("exit 7", 1), ("kill -9 $$", 1)])
async def test_following_reports_how_the_command_ended(
    bench: Bench, served: Session, command: str, code: int
) -> None:
    process = await start(served, f"echo begun; {command}")
    done = await run(bench, "logs", "-f", process)
    assert (done.returncode, done.stdout) == (code, "begun\n")


async def test_a_follower_sleeps_while_nothing_is_written(bench: Bench, served: Session) -> None:
    """At most a few context switches in a second and a half."""
    process = await start(served, "echo begun; exec sleep 60")
    follower = bench.start("logs", "-f", process)
    await asyncio.to_thread(wait_for_line, follower, "begun")

    def switches() -> int:
        status = Path(f"/proc/{follower.pid}/status").read_text()
        return int(status.split("\nvoluntary_ctxt_switches:")[1].split()[0])

    await asyncio.sleep(0.5)
    before = switches()
    await asyncio.sleep(1.5)
    assert switches() - before <= 3


async def test_killing_ends_everything_a_command_started(bench: Bench, served: Session) -> None:
    script = "setsid sleep 86161 & sleep 86162 & exec sleep 86163"
    process = await start(served, script)
    (row,) = await rows(bench)
    done = await run(bench, "kill", process)
    assert (done.returncode, done.stdout) == (0, f"ended {process}\n")
    assert not lives(row["pid"])
    assert not [words for words in command_lines() if "".join(words).startswith("sleep8616")]
    assert (await ended(bench, process))["status"] == "killed"
    again = await run(bench, "kill", process)
    assert again.returncode == 1
    assert f"process {process} has already ended: killed (SIGKILL)" in again.stderr
    assert f"hint: `tillerman logs {process}`" in again.stderr


def command_lines() -> list[list[str]]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes().decode("utf-8", "replace").split("\0"))
        except OSError:
            continue
    return found


@pytest.mark.parametrize("name", ["USR1", "usr1", "sigusr1", "SIGUSR1", "10"])
def test_a_signal_is_named_or_numbered(name: str) -> None:
    assert parse(build(), ["kill", "p1", "--signal", name]).signal == signal.SIGUSR1


async def test_a_signal_is_delivered_to_the_command(bench: Bench, served: Session) -> None:
    script = "trap 'echo heard; exit 4' USR1; echo ready; while :; do sleep 0.05; done"
    process = await start(served, script)
    follower = bench.start("logs", "-f", process)
    await asyncio.to_thread(wait_for_line, follower, "ready")
    done = await run(bench, "kill", process, "--signal", "USR1")
    assert (done.returncode, done.stdout) == (0, f"sent SIGUSR1 to {process}\n")
    await asyncio.to_thread(wait_for_line, follower, "heard")
    assert await asyncio.to_thread(follower.wait, 15) == 1
    assert (await ended(bench, process))["code"] == 4


@pytest.mark.parametrize("command", ["logs", "kill"])
async def test_an_unknown_process_is_reported_with_a_next_step(bench: Bench, command: str) -> None:
    done = await run(bench, command, "p-nowhere")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        "error: no process matches 'p-nowhere'",
        "hint: `tillerman ps --all` lists those of the last day",
    ]


async def test_an_ambiguous_prefix_is_refused(bench: Bench, served: Session) -> None:
    processes = [await start(served, "sleep 60") for _ in range(2)]
    done = await run(bench, "kill", "p")
    assert done.returncode == 2
    assert all(process in done.stderr for process in processes)
    assert len(await rows(bench)) == 2


async def test_an_unknown_signal_is_refused(bench: Bench) -> None:
    done = await run(bench, "kill", "p1", "--signal", "LOUD")
    assert done.returncode == 2
    assert "unknown signal 'LOUD'" in done.stderr


SERVER = """\
import asyncio, sys
from pathlib import Path
from tillerman.harness.harness import open_harness

async def serve():
    async with open_harness(cwd=Path.cwd()) as harness:
        session = await harness.serve(cwd=Path.cwd(), approve="auto")
        for mode in ("async", "background"):
            call = {"command": "echo begun; exec sleep 60", "run_mode": mode}
            print((await session.bench.call("execute_shell", call)).data["process_id"], flush=True)
        await asyncio.sleep(60)

asyncio.run(serve())
"""


@pytest.fixture
def server(bench: Bench) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER],
        cwd=bench.project,
        env=bench.environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    yield process
    assert process.stdout
    process.kill()
    process.wait()
    process.stdout.close()


async def test_after_its_server_was_killed_a_command_is_listed_and_killed(
    bench: Bench, server: subprocess.Popen[str]
) -> None:
    assert server.stdout
    ending, lasting = [server.stdout.readline().strip() for _ in range(2)]
    assert {row["id"] for row in await rows(bench)} == {ending, lasting}
    server.kill()
    deadline = time.monotonic() + 10
    while {row["id"] for row in await rows(bench)} != {lasting}:
        assert time.monotonic() < deadline
    (row,) = await rows(bench)
    done = await run(bench, "kill", lasting)
    assert (done.returncode, done.stdout) == (0, f"ended {lasting}\n")
    assert not lives(row["pid"])
    assert await rows(bench) == []
    assert (await run(bench, "logs", "--stdout", lasting)).stdout == "begun\n"


async def test_a_process_with_an_unknown_end_is_lost(
    bench: Bench, server: subprocess.Popen[str]
) -> None:
    """All at once: the command, its keeper, the warden and the server."""
    assert server.stdout
    _, process = [server.stdout.readline().strip() for _ in range(2)]
    follower = bench.start("logs", "-f", process)
    await asyncio.to_thread(wait_for_line, follower, "begun")
    (row,) = [row for row in await rows(bench) if row["id"] == process]
    those = {row["pid"], *ancestors(row["pid"])} - {os.getpid(), *ancestors(os.getpid())}
    assert server.pid in those
    for how in (signal.SIGSTOP, signal.SIGKILL):
        for pid in those:
            with contextlib.suppress(ProcessLookupError):  # it ended with its parent
                os.kill(pid, how)
    assert await asyncio.to_thread(follower.wait, 15) == 1
    assert (await ended(bench, process))["status"] == "lost"
    assert process not in [row["id"] for row in await rows(bench)]
    done = await run(bench, "kill", process)
    assert (done.returncode, "has already ended: lost" in done.stderr) == (1, True)
