"""Whatever happens to the shim, the socket or the server: the hook's command blocks."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.hooks.hook_desk import Open, Ran, Running, impostor, run, until
from tillerman.hooks.server import HookAsked, HookLimits, HookReply
from tillerman.hooks.shim_builder import Shim
from tillerman.hooks.socket_folder import Tokens, make_folder, new_tokens

HERE = Path(__file__).parent
NOBODY = 65534


def allow(asked: HookAsked) -> None:
    asked.reply(HookReply(b"allow"))


def gate(shim: Shim, folder: Path, seconds: float = 20) -> str:
    return shim.command(folder, "cursor", "preToolUse", seconds, observing=False)


def assert_blocked(ran: Ran, *, says: bool = True) -> None:
    """Exit code 2 and no output that a CLI could read as an answer; Codex also needs a reason."""
    assert (ran.exit, ran.stdout) == (2, b"")
    assert bool(ran.stderr) or not says


@contextmanager
def process(script: str, *words: object) -> Iterator[subprocess.Popen[bytes]]:
    started = subprocess.Popen(
        [sys.executable, HERE / script, *map(str, words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert started.stdout and started.stdout.readline() == b"ready\n"
        yield started
    finally:
        started.kill()
        started.communicate()


async def test_the_shim_is_missing(opened: Open, shim: Shim) -> None:
    server = await opened(allow)
    gone = Shim(shim.kind, (*shim.words[:-1], shim.words[-1] + "-gone"))
    assert_blocked(await run(gate(gone, server.folder)))
    nowhere = Shim(shim.kind, ("/nowhere/shim", *shim.words[1:]))
    assert_blocked(await run(gate(nowhere, server.folder)))


async def test_the_shim_is_not_executable(opened: Open, tmp_path: Path) -> None:
    server = await opened(allow)
    for name, mode, content in (("plain", 0o600, b"allow"), ("junk", 0o700, b"\x7fELF\0junk")):
        file = tmp_path / name
        file.write_bytes(content)
        file.chmod(mode)
        assert_blocked(await run(gate(Shim("compiled", (str(file),)), server.folder)))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGINT])
async def test_the_shim_is_killed_or_crashes(opened: Open, number: signal.Signals) -> None:
    asked: list[HookAsked] = []
    server = await opened(asked.append)
    running = await Running.start(server.command("cursor", "preToolUse", timeout=60))
    running.feed(b"x")
    await until(lambda: bool(asked))
    os.kill(await running.shim(), number)
    assert_blocked(await running.end(None), says=False)


async def test_the_shim_is_killed_before_it_has_asked(opened: Open) -> None:
    server = await opened(allow)
    running = await Running.start(server.command("cursor", "preToolUse", timeout=60))
    os.kill(await running.shim(), signal.SIGKILL)
    assert_blocked(await running.end(None), says=False)


async def test_a_stopped_shim_is_reported_in_time_for_the_tree_to_be_ended(opened: Open) -> None:
    asked: list[HookAsked] = []
    overdue: list[int | None] = []
    server = await opened(asked.append, overdue=overdue.append)
    running = await Running.start(server.command("cursor", "preToolUse", timeout=4))
    loop = asyncio.get_running_loop()
    running.feed(b"x")
    await until(lambda: bool(asked))
    begin = loop.time()
    pid = await running.shim()
    os.kill(pid, signal.SIGSTOP)
    await until(lambda: bool(overdue))
    assert 2.5 < loop.time() - begin < 4  # its deadline is 3.2 s, and the CLI would go on after 4
    assert overdue == [pid]
    assert not asked[0].reply(HookReply(b"allow"))
    os.kill(pid, signal.SIGCONT)
    assert_blocked(await running.end(None))


async def test_a_shim_stopped_after_its_answer_is_reported(opened: Open) -> None:
    asked: list[HookAsked] = []
    overdue: list[int | None] = []
    server = await opened(
        asked.append, overdue=overdue.append, limits=HookLimits(leaving=0.2, grace=0.1)
    )
    running = await Running.start(server.command("cursor", "preToolUse", timeout=60))
    running.feed(b"x")
    await until(lambda: bool(asked))
    pid = await running.shim()
    os.kill(pid, signal.SIGSTOP)
    assert asked[0].reply(HookReply(b"allow"))
    await until(lambda: bool(overdue))
    assert overdue == [pid]
    os.killpg(running.process.pid, signal.SIGKILL)
    await running.end(None)


async def test_a_shim_stopped_after_it_connected_is_reported(opened: Open) -> None:
    """A shim that is stopped between the two: connected, but without a request."""
    overdue: list[int | None] = []
    server = await opened(allow, overdue=overdue.append, limits=HookLimits(arrival=0.3, grace=0.1))
    reader, writer = await asyncio.open_unix_connection(server.folder / "socket")
    await until(lambda: bool(overdue))
    assert overdue == [os.getpid()]
    async with asyncio.timeout(10):
        assert await reader.read() == b""
    writer.close()


async def test_the_cli_never_closes_stdin(opened: Open) -> None:
    server = await opened(allow)
    ran = await run(server.command("cursor", "preToolUse", timeout=1.25), None)
    assert_blocked(ran)


async def test_nothing_reads_the_shims_output(opened: Open) -> None:
    """The shim ends by itself at its deadline, with an exit code that blocks."""
    server = await opened(lambda asked: asked.reply(HookReply(bytes(1_000_000))))
    command = server.command("cursor", "preToolUse", timeout=1.25)
    read, write = os.pipe()
    try:
        process = await asyncio.create_subprocess_exec(
            *("/bin/sh", "-c", command), stdin=subprocess.DEVNULL, stdout=write
        )
        async with asyncio.timeout(20):
            assert await process.wait() == 2
    finally:
        os.close(read)
        os.close(write)


async def test_the_shims_output_cannot_be_written(opened: Open) -> None:
    server = await opened(allow)
    command = server.command("cursor", "preToolUse", timeout=20)
    for redirect in (">&-", ">/dev/full"):
        assert_blocked(await run(f"( {command} ) {redirect}"))


GARBAGE = {
    "nothing": lambda tokens, nonce: [],
    "noise": lambda tokens, nonce: [os.urandom(4096)],
    "a line of text": lambda tokens, nonce: [b"allow\n"],
    "json": lambda tokens, nonce: [b'{"permission":"allow"}\n'],
    "http": lambda tokens, nonce: [b"HTTP/1.1 200 OK\r\n\r\nallow"],
    "no end of line": lambda tokens, nonce: [b"tillerman1 %b %b 0 0 0" % (tokens.answer, nonce)],
    "the ask token": lambda tokens, nonce: [b"tillerman1 %b %b 0 5 0\nallow" % (tokens.ask, nonce)],
    "no token": lambda tokens, nonce: [b"tillerman1  %b 0 5 0\nallow" % nonce],
    "a short token": lambda tokens, nonce: [
        b"tillerman1 %b %b 0 5 0\nallow" % (tokens.answer[:63], nonce)
    ],
    "another nonce": lambda tokens, nonce: [
        b"tillerman1 %b %b 0 5 0\nallow" % (tokens.answer, b"0" * 32)
    ],
    "no nonce": lambda tokens, nonce: [b"tillerman1 %b 0 5 0\nallow" % tokens.answer],
    "another version": lambda tokens, nonce: [
        b"tillerman2 %b %b 0 5 0\nallow" % (tokens.answer, nonce)
    ],
    "capitals": lambda tokens, nonce: [
        b"tillerman1 %b %b 0 5 0\nallow" % (tokens.answer.upper().replace(b"0", b"A"), nonce)
    ],
    "an answer before it": lambda tokens, nonce: [
        b"\ntillerman1 %b %b 0 5 0\nallow" % (tokens.answer, nonce)
    ],
    "a byte too many": lambda tokens, nonce: [
        b"tillerman1 %b %b 0 5 0\nallow!" % (tokens.answer, nonce)
    ],
    "a byte too few": lambda tokens, nonce: [
        b"tillerman1 %b %b 0 5 0\nallo" % (tokens.answer, nonce)
    ],
    "two answers": lambda tokens, nonce: [
        b"tillerman1 %b %b 0 5 0\nallow" % (tokens.answer, nonce)
    ] * 2,
    "an endless one": lambda tokens, nonce: (b"x" * 1_000_000 for _ in range(40)),
}  # fmt: skip

WRONG_SIZES = [
    "", "0", "0 0", "0 0 0 0", "-0 5 0", "0 -5 0", "+0 5 0", "0 5 x", "0x0 5 0", " 0 5 0", "0  5 0",
    "0 5 0 ", "0\t5\t0", "256 5 0", "4294967296 5 0", "0 5000000000 0", "0 999999999 999999999",
    "0 5.0 0", "0 5e0 0", "٠ 5 0", "0 5 0\r", "0 18446744073709551621 0", "0000000000 5 0",
]  # fmt: skip


@pytest.mark.parametrize("kind", GARBAGE)
async def test_the_server_sends_garbage(shim: Shim, tmp_path: Path, kind: str) -> None:
    async with impostor(tmp_path / "hooks", GARBAGE[kind]) as folder:
        assert_blocked(await run(gate(shim, folder), b"x"))


@pytest.mark.parametrize("sizes", WRONG_SIZES)
async def test_the_server_sends_a_wrong_schema(shim: Shim, tmp_path: Path, sizes: str) -> None:
    def said(tokens: Tokens, nonce: bytes) -> list[bytes]:
        return [b"tillerman1 %b %b %b\nallow" % (tokens.answer, nonce, sizes.encode())]

    async with impostor(tmp_path / "hooks", said) as folder:
        assert_blocked(await run(gate(shim, folder), b"x"))


async def test_the_socket_is_gone(opened: Open, shim: Shim, tmp_path: Path) -> None:
    server = await opened(allow)
    command = server.command("cursor", "preToolUse", timeout=20)
    socket_path = server.folder / "socket"
    aside = socket_path.rename(tmp_path / "aside")
    assert_blocked(await run(command))
    socket_path.write_text("a file")
    assert_blocked(await run(command))
    socket_path.unlink()
    os.mkfifo(socket_path)
    assert_blocked(await run(command))
    socket_path.unlink()
    aside.rename(socket_path)
    assert (await run(command)).exit == 0
    (server.folder / "key").rename(tmp_path / "aside")
    assert_blocked(await run(command))
    os.mkfifo(server.folder / "key", 0o600)
    assert_blocked(await run(command))
    (server.folder / "key").unlink()
    (server.folder / "key").symlink_to(tmp_path / "aside")
    assert_blocked(await run(command))


@pytest.mark.parametrize("mode", [0o777, 0o755, 0o750, 0o701, 0o704])
async def test_the_folder_is_writable_by_others(opened: Open, mode: int) -> None:
    server = await opened(allow)
    command = server.command("cursor", "preToolUse", timeout=20)
    server.folder.chmod(mode)
    assert_blocked(await run(command))


async def test_the_key_is_readable_by_others(opened: Open) -> None:
    server = await opened(allow)
    command = server.command("cursor", "preToolUse", timeout=20)
    (server.folder / "key").chmod(0o640)
    assert_blocked(await run(command))


async def test_the_folder_is_a_symlink(opened: Open, shim: Shim, tmp_path: Path) -> None:
    server = await opened(allow)
    (tmp_path / "link").symlink_to(server.folder)
    assert_blocked(await run(gate(shim, tmp_path / "link")))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
async def test_the_folder_belongs_to_another_user(shim: Shim, tmp_path: Path) -> None:
    def allowed(tokens: Tokens, nonce: bytes) -> list[bytes]:
        return [b"tillerman1 %b %b 0 5 0\nallow" % (tokens.answer, nonce)]

    async with impostor(tmp_path / "hooks", allowed) as folder:
        assert await run(gate(shim, folder)) == Ran(0, b"allow", b"")
        os.chown(folder / "key", NOBODY, NOBODY)
        assert_blocked(await run(gate(shim, folder)))
        os.chown(folder / "key", os.getuid(), os.getgid())
        os.chown(folder, NOBODY, NOBODY)
        assert_blocked(await run(gate(shim, folder)))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
async def test_the_socket_belongs_to_another_user(shim: Shim, tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "hooks")
    new_tokens(folder)
    with process("squatter.py", folder, os.getuid()):
        assert await run(gate(shim, folder)) == Ran(0, b"allow", b"")  # it does answer as it should
    with process("squatter.py", folder, NOBODY):
        assert_blocked(await run(gate(shim, folder)))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
async def test_another_user_who_connects_is_rejected(opened: Open) -> None:
    asked: list[HookAsked] = []
    with tempfile.TemporaryDirectory() as outside:  # pytest's own folder is root's alone
        server = await opened(asked.append, folder=Path(outside) / "hooks")
        ask, _ = (server.folder / "key").read_text().split()
        for path in (Path(outside), server.folder, server.folder / "socket"):
            path.chmod(0o777)
        reported = await asyncio.to_thread(_ask_as_nobody, server.folder, ask)
    assert (reported.stdout, reported.stderr) == (b"b''\n", b"")
    assert asked == []


def _ask_as_nobody(folder: Path, token: str) -> subprocess.CompletedProcess[bytes]:
    question = f"tillerman1 {token} {'0' * 32} cursor preToolUse 1000 0\n"
    script = f"""
import os, socket
os.setuid({NOBODY})
connection = socket.socket(socket.AF_UNIX)
connection.connect({str(folder / "socket")!r})
try:
    connection.sendall({question.encode()!r})
    print(connection.recv(100))
except ConnectionError:
    print(b"")
"""
    return subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=20)


async def test_the_token_is_wrong(opened: Open) -> None:
    asked: list[HookAsked] = []
    server = await opened(asked.append)
    command = server.command("cursor", "preToolUse", timeout=20)
    key = server.folder / "key"
    ask, answer = key.read_text().split()
    wrong = ask[:-1] + ("0" if ask[-1] != "0" else "1")
    for text in (
        f"{wrong} {answer}\n",
        "",
        "x",
        f"{ask} {answer}",
        f"{ask}\n{answer}\n",
        f"{ask} ",
    ):
        key.write_text(text)
        assert_blocked(await run(command))
    assert asked == []
    key.write_text(f"{ask} {wrong}\n")  # asked with the right one, but the answer cannot be known
    running = asyncio.create_task(run(command))
    await until(lambda: bool(asked))
    asked[0].reply(HookReply(b"allow"))
    assert_blocked(await running)


async def test_the_server_is_stopped(shim: Shim, tmp_path: Path) -> None:
    with process("hook_owner.py", tmp_path / "hooks", "allow") as owner:
        assert await run(gate(shim, tmp_path / "hooks")) == Ran(0, b"allow", b"")
        owner.send_signal(signal.SIGSTOP)
        assert_blocked(await run(gate(shim, tmp_path / "hooks", 1)))


async def test_more_connections_than_a_stopped_server_accepts(shim: Shim, tmp_path: Path) -> None:
    """The queue of the server is full: no shim waits longer than the deadline."""
    folder = make_folder(tmp_path / "hooks")
    new_tokens(folder)
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(folder / "socket"))
    listening.listen(0)
    waiting = [await Running.start(gate(shim, folder, 2)) for _ in range(4)]
    for ran in await asyncio.gather(*(each.end(b"x") for each in waiting)):
        assert_blocked(ran)
    listening.close()


async def test_the_harness_is_killed(shim: Shim, tmp_path: Path) -> None:
    command = gate(shim, tmp_path / "hooks")
    with process("hook_owner.py", tmp_path / "hooks", "silent") as owner:
        running = asyncio.create_task(run(command, b"x"))
        await until((tmp_path / "asked").exists)
        owner.kill()
        assert_blocked(await running)
    assert_blocked(await run(command, b"x"))


@pytest.fixture(scope="session")
def clock_jump(tmp_path_factory: pytest.TempPathFactory) -> str:
    library = tmp_path_factory.mktemp("clock") / "clock_jump.so"
    compiler = ["cc", "-shared", "-fPIC", "-O1", "-o", library, HERE / "clock_shift.c", "-ldl"]
    try:
        subprocess.run(compiler, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no C compiler here")
    return str(library)


async def test_the_clock_jumps_by_years(opened: Open, clock_jump: str) -> None:
    env = {"LD_PRELOAD": clock_jump}
    result = await run(
        f"{sys.executable} -c 'import time; print(abs(time.time() - time.time()) > 3e7)'", env=env
    )
    assert result == Ran(0, b"True\n", b"")
    asked: list[HookAsked] = []
    server = await opened(asked.append)
    loop = asyncio.get_running_loop()
    begin = loop.time()
    ran = await run(server.command("cursor", "preToolUse", timeout=1.25), b"x", env)
    assert_blocked(ran)
    assert re.match(rb"tillerman: no answer within ", ran.stderr)
    assert loop.time() - begin >= 1.0
    assert len(asked) == 1
    running = asyncio.create_task(
        run(server.command("cursor", "preToolUse", timeout=20), b"x", env)
    )
    await until(lambda: len(asked) == 2)
    asked[1].reply(HookReply(b"allow"))
    assert await running == Ran(0, b"allow", b"")


@pytest.mark.parametrize("deadline", ["", "0", "-1", "nan", "inf", "1e9", "5x", "1 2"])
async def test_no_deadline_is_no_permission(opened: Open, shim: Shim, deadline: str) -> None:
    server = await opened(allow)
    words = " ".join(
        f"'{word}'" for word in (*shim.words, server.folder, "cursor", "stop", deadline)
    )
    assert_blocked(await run(f"{words} || exit 2"))


async def test_the_shim_was_started_with_its_alarm_ignored_or_blocked(opened: Open) -> None:
    server = await opened(lambda asked: None)
    command = server.command("cursor", "preToolUse", timeout=1.25)
    script = (
        "import signal, subprocess, sys;"
        "signal.signal(signal.SIGALRM, signal.SIG_IGN);"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM});"
        "sys.exit(subprocess.run(['/bin/sh', '-c', sys.argv[1]]).returncode)"
    )
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", script, command),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    async with asyncio.timeout(20):
        assert await process.wait() == 2
