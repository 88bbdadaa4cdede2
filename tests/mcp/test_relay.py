"""The relay that an agent starts passes bytes unchanged, and only for its owner."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

import tillerman.mcp.stdio_relay
from tillerman.agents import load
from tillerman.core.session_options import session_spec
from tillerman.harness.harness import serve_tools
from tillerman.paths import find_paths
from tillerman.sessions.remote.private_socket import PrivateSocketServer
from tillerman.sessions.run_settings import RunSettings, WorkspaceToolSettings
from tillerman.sessions.service import Sessions
from tillerman.sessions.session import Session
from tillerman.store.database import Database

pytestmark = pytest.mark.timeout(60)

RELAY = [sys.executable, "-I", "-S", str(Path(tillerman.mcp.stdio_relay.__file__))]
NOBODY = 65534


def relay(path: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*RELAY, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[socket.socket]:
    """The other end, driven by the test."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "s"))
    listener.listen()
    listener.settimeout(20)
    with listener:
        yield listener


def test_bytes_pass_unchanged_both_ways(harness: socket.socket, tmp_path: Path) -> None:
    there, back = os.urandom(3_000_000) + b"\0\n\r\n", os.urandom(3_000_000)
    process = relay(tmp_path / "s")
    line, _ = harness.accept()
    received = bytearray()

    def listen() -> None:
        while data := line.recv(65536):
            received.extend(data)

    def talk() -> None:
        line.sendall(back)
        listening.join()
        line.close()

    listening, talking = threading.Thread(target=listen), threading.Thread(target=talk)
    listening.start()
    talking.start()
    reported, errors = process.communicate(there, timeout=30)
    talking.join(20)
    assert (bytes(received), reported, errors, process.returncode) == (there, back, b"", 0)


def test_a_client_that_closed_its_input_still_receives_the_response(
    harness: socket.socket, tmp_path: Path
) -> None:
    process = relay(tmp_path / "s")
    line, _ = harness.accept()
    assert process.stdin and process.stdout
    process.stdin.write(b"asked\n")
    process.stdin.close()
    assert line.recv(100) == b"asked\n"
    assert line.recv(100) == b""
    line.sendall(b"answered\n")
    line.close()
    with process:
        assert process.stdout.read() == b"answered\n"
    assert process.returncode == 0


def test_when_the_harness_ends_it_exits_with_a_message(
    harness: socket.socket, tmp_path: Path
) -> None:
    process = relay(tmp_path / "s")
    line, _ = harness.accept()
    line.close()
    with process:
        assert process.stderr
        reported = process.stderr.read()
    assert process.returncode == 1 and reported.startswith(
        b"tillerman: the session is not available"
    )


@pytest.mark.parametrize("kind", ["nothing", "a file", "nobody listens", "too long"])
def test_without_a_harness_it_reports_so(tmp_path: Path, kind: str) -> None:
    path = tmp_path / ("x" * 200 if kind == "too long" else "s")
    if kind == "a file":
        path.write_text("")
    if kind == "nobody listens":
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(path))
    done = subprocess.run([*RELAY, str(path)], input=b"", capture_output=True, timeout=20)
    assert (done.returncode, done.stdout) == (1, b"")
    assert (
        done.stderr.startswith(b"tillerman: the session is not available")
        and done.stderr.count(b"\n") == 1
    )


def test_an_agent_that_disconnects_is_not_an_error(harness: socket.socket, tmp_path: Path) -> None:
    process = relay(tmp_path / "s")
    line, _ = harness.accept()
    assert process.stdout and process.stdin and process.stderr
    process.stdout.close()
    line.sendall(b"x" * 100_000)
    assert process.wait(20) == 0
    assert process.stderr.read() == b""
    process.stdin.close()
    process.stderr.close()
    line.close()


# -- who is served ---------------------------------------------------------------------------------


@pytest.fixture
async def session(tmp_path: Path) -> AsyncIterator[Session]:
    """A session with an agent that is offered the workspace tools."""
    project = tmp_path / "project"
    project.mkdir()
    paths = find_paths({"TILLERMAN_HOME": str(tmp_path / "tillerman")})
    database = Database.open(paths.store)
    sessions = Sessions(paths, database, serve_tools)
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    options = {"pace": "0", "state": str(tmp_path / "mock")}
    yield await sessions.start(
        load("mock"),
        session_spec(cwd=project, options=options),
        RunSettings(
            approve="auto",
            environment=environment,
            bench=WorkspaceToolSettings(environment=environment),
        ),
    )
    await sessions.close()
    database.close()


def tools_socket(session: Session, folder: Path) -> Path:
    return find_paths({"TILLERMAN_HOME": str(folder / "tillerman")}).socket(f"{session.id}-tools")


async def test_one_of_our_clients_is_served_through_the_relay(
    session: Session, tmp_path: Path
) -> None:
    path = tools_socket(session, tmp_path)
    assert path.stat().st_mode & 0o777 == 0o600 and path.parent.stat().st_mode & 0o077 == 0
    server = StdioServerParameters(command=RELAY[0], args=[*RELAY[1:], str(path)])
    async with Client(server) as client:
        result = await client.call_tool("write_file", {"path": "a.txt", "content": "one\n"})
        assert not result.is_error
    assert (tmp_path / "project/a.txt").read_text() == "one\n"


ASK = """\
(printf '{"jsonrpc":"2.0","id":1,"method":"ping"}\\n'; sleep 1) | $RELAY
"""


async def test_a_command_of_the_session_is_not_served(session: Session, tmp_path: Path) -> None:
    call = " ".join([*RELAY, str(tools_socket(session, tmp_path))])
    (tmp_path / "project" / "ask.sh").write_text(ASK.replace("$RELAY", call))
    by_hand = await asyncio.create_subprocess_exec(
        "sh", "ask.sh", cwd=tmp_path / "project", stdout=subprocess.PIPE
    )
    reported, _ = await by_hand.communicate()
    assert b'"result":{}' in reported  # for other callers than its commands
    assert session.bench
    for command in ("sh ask.sh", "setsid sh -c '(sh ask.sh) & wait'", "sh ask.sh & wait"):
        done = await session.bench.call("execute_shell", {"command": command, "timeout": 20})
        assert done.data["stdout"] == "", done.text
        assert "rejects this process" in done.data["stderr"], done.text


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user for a while")
async def test_another_user_is_not_served(tmp_path: Path) -> None:
    served = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.append(writer)
        writer.write(b"served\n")

    # Open to everybody: what is tried is who is asked for, not the folder's mode.
    folder = Path("/tmp") / f"relay-{os.getpid()}"
    folder.mkdir()
    reception = PrivateSocketServer(serve)
    try:
        await reception.open(folder / "s")
        assert (folder / "s").stat().st_mode & 0o777 == 0o600
        (folder / "s").chmod(0o777)
        folder.chmod(0o755)
        talk = (
            "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]);"
            "print(s.recv(100))"
        )
        for user, expected in ((NOBODY, b"b''\n"), (0, b"b'served\\n'\n")):
            process = await asyncio.create_subprocess_exec(
                "/usr/bin/python3", "-c", talk, str(folder / "s"),
                stdout=subprocess.PIPE, user=user, cwd="/",
            )  # fmt: skip
            reported, _ = await process.communicate()
            assert reported == expected
        assert len(served) == 1
    finally:
        await reception.close()
        folder.rmdir()


async def test_when_the_session_ends_its_relays_end(session: Session, tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *RELAY, str(tools_socket(session, tmp_path)), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin and process.stdout and process.stderr
    process.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    assert b'"result"' in await process.stdout.readline()
    await session.close()
    async with asyncio.timeout(20):
        assert await process.wait() == 1
    assert (await process.stderr.read()).startswith(b"tillerman: the session is not available")
    assert not tools_socket(session, tmp_path).exists()
