"""Pipes, signals, files and numbers that are not what a program expects."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

FOREVER = '[{"send":{"type":"tasks","tasks":[{"task_id":"b1","title":"ever"}]}},{"say":"Hello."}]'


def bridle(home: Path, *words: str, **how: object) -> subprocess.Popen[bytes]:
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "BRIDLE_HOME": str(home / "b")}
    given = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    argv = [sys.executable, "-m", "bridle", *words]
    return subprocess.Popen(argv, env=env, cwd=home, **{**given, **how})  # type: ignore[call-overload,no-any-return]


def test_the_time_limit_holds_for_background_work_too(tmp_path: Path) -> None:
    run = bridle(tmp_path, "run", "-a", "mock", "--timeout", "1", FOREVER)
    out, errors = run.communicate(timeout=30)
    assert (run.returncode, out.strip()) == (124, b"Hello."), errors


def test_a_second_sigterm_leaves_at_once(tmp_path: Path) -> None:
    run = bridle(tmp_path, "run", "-a", "mock", '[{"say":"Hello."},{"deaf":true},{"hang":true}]')
    deadline = time.monotonic() + 20
    while not list((tmp_path / "b/sockets").glob("*")) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(1)
    run.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    run.send_signal(signal.SIGTERM)
    assert run.wait(5) == 130
    run.communicate()


def test_a_pipe_that_does_not_block_gets_the_whole_stream(tmp_path: Path) -> None:
    read, write = os.pipe()
    fcntl.fcntl(write, fcntl.F_SETFL, fcntl.fcntl(write, fcntl.F_GETFL) | os.O_NONBLOCK)
    words = ("run", "-a", "mock", "--json", '[{"flood": 1, "of": "lines"}, {"say": "end"}]')
    run = bridle(tmp_path, *words, stdout=write)
    os.close(write)
    time.sleep(1)
    lines = b""
    while chunk := os.read(read, 65536):
        lines += chunk
    os.close(read)
    errors = run.communicate(timeout=30)[1]
    assert run.returncode == 0, errors
    assert b'"turn_ended"' in lines.splitlines()[-1]


def test_what_is_no_file_cannot_be_attached(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "/dev/zero", "nothing-there"):
        run = bridle(tmp_path, "run", "-a", "mock", "--attach", name, "look")
        errors = run.communicate(timeout=20)[1]
        assert run.returncode == 2, name
        assert errors.startswith(b"error: --attach"), errors


def test_a_number_no_store_can_count_to_is_refused(tmp_path: Path) -> None:
    run = bridle(tmp_path, "sessions", "list", "--limit", "99999999999999999999")
    assert run.communicate(timeout=20)[1].startswith(b"error:")
    assert run.returncode == 2


def test_a_folder_that_is_gone_is_said_to_be(tmp_path: Path) -> None:
    script = f"mkdir x && cd x && rmdir ../x && {sys.executable} -m bridle sessions list"
    env = {"PATH": os.environ["PATH"], "BRIDLE_HOME": str(tmp_path / "b")}
    ran = subprocess.run(["sh", "-c", script], cwd=tmp_path, env=env, capture_output=True)
    assert (ran.returncode, ran.stderr.split(b"\n")[0]) == (2, b"error: the current folder is gone")
