"""A stand-in for `python -m tillerman …`: it has loaded what most commands need, and forks.

Loading takes most of the time of a short command. That each module loads what it needs, in any
order, is checked by `test_loading`. Tests of terminals, of closed streams and of an interpreter's
start need the real program, and so does a Python option set by a variable.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import IO

LIBRARIES = (
    "apsw", "argparse", "asyncio", "concurrent.futures.thread", "ctypes", "dataclasses", "datetime",
    "difflib", "hashlib", "importlib.metadata", "json", "logging", "msgspec", "pathlib", "platform",
    "queue", "random", "secrets", "shlex", "shutil", "tempfile", "tomllib", "typing",
    "urllib.parse", "uuid",
)  # fmt: skip
OURS = (
    "tillerman.harness.harness", "tillerman.agents.mock.wire",
    "tillerman.agents.stdio.per_turn_conversation", "tillerman.sessions.agent.host",
    "tillerman.sessions.runner.runner", "tillerman.sessions.agent.agent_row",
    "tillerman.surfaces.cli.views.json_view", "tillerman.surfaces.cli.main",
    "tillerman.surfaces.cli.commands.run", "tillerman.surfaces.cli.commands.sessions",
    "tillerman.surfaces.cli.views.follow",
)  # fmt: skip
MAX_WAIT = 60.0
LANG = "C.UTF-8"
FOR_PYTHON = ("PYTHON", "LC_", "LD_", "TZ")  # variables that count before a first line is run
MOST = 100_000  # bytes of a request


def run_tillerman(
    words: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    input: bytes | None = None,
    libraries: tuple[str, ...] = (),
    wrapper: tuple[str, ...] = (),
    stdout: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """With its output captured, or written to `stdout`; without input it reads an empty stdin.

    `wrapper`: a command that starts the warm Python, with fewer rights or other mounts.
    """
    stdin = input is not None
    if wrapper or stdout:
        libraries = (*LIBRARIES, *OURS, *libraries)
        request = _request(words, cwd, env)
        program: Forked | subprocess.Popen[bytes] = Forked(
            _nursery(libraries, wrapper), request, stdin=stdin, stdout=stdout
        )
    else:
        program = start_tillerman(words, cwd=cwd, env=env, stdin=stdin, libraries=libraries)
    with ThreadPoolExecutor(3) as pool:
        if program.stdin:
            pool.submit(_write, program.stdin, input or b"")
        assert program.stdout and program.stderr
        printed = [pool.submit(_read, stream) for stream in (program.stdout, program.stderr)]
        try:
            code = program.wait(MAX_WAIT)
        except subprocess.TimeoutExpired:
            program.kill()
            raise
        return subprocess.CompletedProcess(words, code, *(one.result() for one in printed))


def start_tillerman(
    words: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    stdin: bool = True,
    libraries: tuple[str, ...] = (),
) -> Forked | subprocess.Popen[bytes]:
    """With pipes for its streams; `libraries` besides those of every command."""
    request = _request(words, cwd, env)
    reported = any(name.startswith(FOR_PYTHON) for name in env) or env.get("LANG", LANG) != LANG
    if not reported and len(request) <= MOST:
        return Forked(_nursery((*LIBRARIES, *OURS, *libraries)), request, stdin=stdin)
    return subprocess.Popen(
        [sys.executable, "-m", "tillerman", *words],
        cwd=cwd,
        env=env,
        stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def _request(words: Sequence[str], cwd: Path, env: Mapping[str, str]) -> bytes:
    return json.dumps([words, str(cwd), dict(env)]).encode()


def _write(stream: IO[bytes], data: bytes) -> None:
    with suppress(BrokenPipeError), stream:
        stream.write(data)


def _read(stream: IO[bytes]) -> str:
    with stream:
        return stream.read().decode()


class Forked:
    """A child of another process, with the interface of `subprocess.Popen`."""

    def __init__(
        self, nursery: socket.socket, request: bytes, *, stdin: bool, stdout: Path | None = None
    ) -> None:
        ends = [os.pipe() for _ in range(4 if stdin else 3)]
        (out, printed), (err, stderr), (updates, report), *feed = ends
        if stdout:
            os.close(printed)
            printed = os.open(stdout, os.O_WRONLY)
        theirs = feed[0][0] if stdin else os.open(os.devnull, os.O_RDONLY)
        self.stdin: IO[bytes] | None = os.fdopen(feed[0][1], "wb") if stdin else None
        self.stdout: IO[bytes] = os.fdopen(out, "rb")
        self.stderr: IO[bytes] = os.fdopen(err, "rb")
        socket.send_fds(nursery, [request], [theirs, printed, stderr, report])
        for fd in (theirs, printed, stderr, report):
            os.close(fd)
        self._updates = os.fdopen(updates)
        self.pid = int(self._updates.readline())
        self.returncode: int | None = None

    def poll(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._updates], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(["tillerman"], timeout or 0)
            with self._updates:
                self.returncode = os.waitstatus_to_exitcode(int(self._updates.readline()))
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[bytes, bytes]:
        with ThreadPoolExecutor(2) as pool, self.stdout, self.stderr:
            printed = [pool.submit(stream.read) for stream in (self.stdout, self.stderr)]
            try:
                self.wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill()
                raise
            out, err = (one.result() for one in printed)
        return out, err

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


# -- who forks -------------------------------------------------------------------------------------


@cache
def _nursery(libraries: tuple[str, ...], wrapper: tuple[str, ...] = ()) -> socket.socket:
    """One for all tests of a worker. Its own streams are pipes, as those of its children are."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [*wrapper, sys.executable, __file__, str(theirs.fileno()), *libraries],
            env={"LANG": LANG},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[theirs.fileno()],
        )

    def close() -> None:
        ours.close()
        process.communicate()

    atexit.register(close)
    return ours


def serve(line: socket.socket, libraries: Sequence[str]) -> None:
    for name in libraries:
        import_module(name)
    gc.collect()
    gc.freeze()  # or each child would copy what it only looks at
    running: dict[int, int] = {}
    updates, wake = os.pipe()  # a signal that came just before the call that waits would be lost
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        ready, _, _ = select.select([line, updates], [], [])
        if updates in ready:
            os.read(updates, 1000)
            _report_ended(running)
        if line not in ready:
            continue
        request, fds, _, _ = socket.recv_fds(line, MOST, 4)
        if not request:
            return
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for number, fd in enumerate(fds[:3]):
                os.dup2(fd, number)
            os.closerange(3, line.detach() + 1000)
            become(*json.loads(request))
        *streams, report = fds
        for fd in streams:
            os.close(fd)
        os.write(report, f"{pid}\n".encode())
        running[pid] = report


def _report_ended(running: dict[int, int]) -> None:
    for pid in list(running):
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            with suppress(BrokenPipeError), os.fdopen(running.pop(pid), "w") as report:
                report.write(f"{status}\n")


def become(words: list[str], cwd: str, env: dict[str, str]) -> None:
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.path[0] = cwd
    sys.argv = ["tillerman", *words]
    runpy.run_module("tillerman", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2:])
