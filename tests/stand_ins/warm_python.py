"""A stand-in for `python -m bridle …`: a Python that has loaded the libraries, and forks.

Most of a short command goes into loading what is not ours. Ours is loaded anew by each process, as
at any other start; what tests of an interpreter's start, of terminals and of processes that live on
need is the real thing.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import runpy
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

LIBRARIES = (
    "apsw", "argparse", "asyncio", "ctypes", "dataclasses", "datetime", "difflib", "hashlib",
    "logging", "msgspec", "pathlib", "platform", "random", "secrets", "shutil", "tempfile",
    "tomllib", "typing", "urllib.parse", "uuid",
)  # fmt: skip
PATIENCE = 60.0
LANG = "C.UTF-8"
FOR_PYTHON = ("PYTHON", "LC_", "LD_", "TZ")  # variables that count before a first line is run
MOST = 100_000  # bytes of a request


def run_bridle(
    words: Sequence[str], *, cwd: Path, env: Mapping[str, str], input: bytes | None = None
) -> subprocess.CompletedProcess[str]:
    """With its output captured; without input it reads from nowhere."""
    request = json.dumps([words, str(cwd), dict(env)]).encode()
    if len(request) > MOST or env.get("LANG", LANG) != LANG or _for_python(env):
        return _run_really(words, cwd, env, input)
    stdin, feed = os.pipe()
    (out, stdout), (err, stderr), (news, tell) = (os.pipe() for _ in range(3))
    if input is None:
        os.close(stdin)
        stdin = os.open(os.devnull, os.O_RDONLY)
    socket.send_fds(_nursery(), [request], [stdin, stdout, stderr, tell])
    for fd in (stdin, stdout, stderr, tell):
        os.close(fd)
    with ThreadPoolExecutor(3) as pool, os.fdopen(news) as heard:
        pid = int(heard.readline())
        pool.submit(_write, feed, input or b"")
        output, errors = pool.submit(_read, out), pool.submit(_read, err)
        try:
            printed = output.result(PATIENCE), errors.result(PATIENCE)
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            raise
        code = os.waitstatus_to_exitcode(int(heard.readline()))
    return subprocess.CompletedProcess(words, code, *printed)


def _run_really(
    words: Sequence[str], cwd: Path, env: Mapping[str, str], input: bytes | None
) -> subprocess.CompletedProcess[str]:
    ran = subprocess.run(
        [sys.executable, "-m", "bridle", *words],
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL if input is None else None,
        input=input,
        capture_output=True,
        timeout=PATIENCE,
    )
    return subprocess.CompletedProcess(
        words, ran.returncode, ran.stdout.decode(), ran.stderr.decode()
    )


def _for_python(env: Mapping[str, str]) -> bool:
    return any(name.startswith(FOR_PYTHON) for name in env)


def _write(fd: int, data: bytes) -> None:
    with suppress(BrokenPipeError), os.fdopen(fd, "wb") as pipe:
        pipe.write(data)


def _read(fd: int) -> str:
    with os.fdopen(fd, encoding="utf-8", newline="") as pipe:
        return pipe.read()


# -- who forks -------------------------------------------------------------------------------------


@cache
def _nursery() -> socket.socket:
    """One for all tests of a worker. Its own streams are pipes, as those of its children are."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno())],
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


def serve(line: socket.socket) -> None:
    for name in LIBRARIES:
        import_module(name)
    gc.collect()
    gc.freeze()  # or each child would copy what it only looks at
    running: dict[int, int] = {}

    def ended(*_: object) -> None:
        for pid in list(running):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                _write(running.pop(pid), f"{status}\n".encode())

    signal.signal(signal.SIGCHLD, ended)
    while True:
        request, fds, _, _ = socket.recv_fds(line, MOST, 4)
        if not request:
            return
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
            for number, fd in enumerate(fds[:3]):
                os.dup2(fd, number)
            os.closerange(3, line.detach() + 1000)
            become(*json.loads(request))
        *streams, tell = fds
        for fd in streams:
            os.close(fd)
        os.write(tell, f"{pid}\n".encode())
        running[pid] = tell
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])


def become(words: list[str], cwd: str, env: dict[str, str]) -> None:
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.path[0] = cwd
    sys.argv = ["bridle", *words]
    runpy.run_module("bridle", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
