"""Pipes, signals, files and numbers that are not what a program expects."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

FOREVER = '[{"send":{"type":"tasks","tasks":[{"task_id":"b1","title":"ever"}]}},{"say":"Hello."}]'


def tillerman(home: Path, *words: str, **how: object) -> subprocess.Popen[bytes]:
    """Names in capitals are variables."""
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "TILLERMAN_HOME": str(home / "b")}
    env |= {name: str(how.pop(name)) for name in list(how) if name.isupper()}
    given = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    argv = [sys.executable, "-m", "tillerman", *words]
    return subprocess.Popen(argv, env=env, cwd=home, **{**given, **how})  # type: ignore[call-overload,no-any-return]


def test_the_time_limit_applies_to_background_work_too(tmp_path: Path) -> None:
    run = tillerman(tmp_path, "run", "-a", "mock", "--timeout", "1", FOREVER)
    out, errors = run.communicate(timeout=30)
    assert (run.returncode, out.strip()) == (124, b"Hello."), errors


def test_a_second_sigterm_exits_at_once(tmp_path: Path) -> None:
    script = '[{"deaf":true},{"say":"Hello."},{"hang":true}]'
    run = tillerman(tmp_path, "run", "-a", "mock", "--json", script)
    assert run.stdout and any(b"Hello." in line for line in run.stdout if b"prompt" not in line)
    run.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    run.send_signal(signal.SIGTERM)
    assert run.wait(5) == 130
    run.communicate()


def test_a_non_blocking_pipe_gets_the_whole_stream(tmp_path: Path) -> None:
    read, write = os.pipe()
    fcntl.fcntl(write, fcntl.F_SETFL, fcntl.fcntl(write, fcntl.F_GETFL) | os.O_NONBLOCK)
    words = ("run", "-a", "mock", "--json", '[{"flood": 1, "of": "lines"}, {"say": "end"}]')
    run = tillerman(tmp_path, *words, stdout=write)
    os.close(write)
    time.sleep(1)
    lines = b""
    while chunk := os.read(read, 65536):
        lines += chunk
    os.close(read)
    errors = run.communicate(timeout=30)[1]
    assert run.returncode == 0, errors
    assert b'"turn_ended"' in lines.splitlines()[-1]


def test_only_files_can_be_attached(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "/dev/zero", "nothing-there"):
        run = tillerman(tmp_path, "run", "-a", "mock", "--attach", name, "look")
        errors = run.communicate(timeout=20)[1]
        assert run.returncode == 2, name
        assert errors.startswith(b"error: --attach"), errors


def test_a_number_beyond_the_range_of_the_store_is_refused(tmp_path: Path) -> None:
    run = tillerman(tmp_path, "sessions", "list", "--limit", "99999999999999999999")
    assert run.communicate(timeout=20)[1].startswith(b"error:")
    assert run.returncode == 2


def test_a_missing_folder_is_reported(tmp_path: Path) -> None:
    script = f"mkdir x && cd x && rmdir ../x && {sys.executable} -m tillerman sessions list"
    env = {"PATH": os.environ["PATH"], "TILLERMAN_HOME": str(tmp_path / "b")}
    ran = subprocess.run(["sh", "-c", script], cwd=tmp_path, env=env, capture_output=True)
    assert (ran.returncode, ran.stderr.split(b"\n")[0]) == (
        2,
        b"error: the current folder no longer exists",
    )


@pytest.mark.parametrize(
    "words",
    ["--version", "--help", "agents", "sessions list --json", "run -a mock --json script:hello"],
)
def test_output_that_cannot_be_written_is_reported(tmp_path: Path, words: str) -> None:
    with Path("/dev/full").open("wb") as full:
        run = tillerman(tmp_path, *words.split(), stdout=full)
        errors = run.communicate(timeout=30)[1].decode()
    assert run.returncode == 1
    assert errors.endswith("error: the output could not be written: No space left on device\n")
    assert "Traceback" not in errors


def test_output_is_utf8_where_the_locale_is_ascii(tmp_path: Path) -> None:
    forced = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    (tmp_path / "ordner-ü").mkdir()
    words = ("run", "-a", "mock", "-C", "ordner-ü", "--title", "Grüße", "--system", "Sprich schön.")
    run = tillerman(tmp_path, *words, '[{"say": "Schön, €5."}]', **forced)
    out, errors = run.communicate(timeout=30)
    assert (run.returncode, out.decode()) == (0, "Schön, €5.\n"), errors
    listing = tillerman(tmp_path, "sessions", "list", "--json", **forced)
    (row,) = json.loads(listing.communicate(timeout=30)[0])
    assert (row["title"], row["cwd"]) == ("Grüße", str(tmp_path / "ordner-ü"))


def test_json_holds_no_terminal_control(tmp_path: Path) -> None:
    words = "a\x9b31mb\u202ec\x7f"
    run = tillerman(tmp_path, "run", "-a", "mock", "--json", json.dumps([{"say": words}]))
    lines = run.communicate(timeout=30)[0].decode()
    shown = tillerman(tmp_path, "sessions", "show", "last", "--json").communicate(timeout=30)[0]
    for text in (lines, shown.decode()):
        assert not set("\x9b\u202e\x7f") & set(text)
        said = [json.loads(line)["event"] for line in text.splitlines()]
        assert words in "".join(e["text"] for e in said if e["type"] == "message_chunk")
