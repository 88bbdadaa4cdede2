"""Pipes, signals, files and numbers that a program does not expect."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
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
        messages = [json.loads(line)["event"] for line in text.splitlines()]
        assert words in "".join(e["text"] for e in messages if e["type"] == "message_chunk")


@pytest.mark.parametrize(
    "limit",
    [*(f"-n {files}" for files in (6, 10, 16, 24, 64)), "-v 30000", "-v 60000", "-v 200000"],
)
@pytest.mark.parametrize("words", ["run -a mock script:hello", "sessions list", "requests list"])
def test_a_limit_of_the_system_is_named_and_is_no_bug(
    tmp_path: Path, limit: str, words: str
) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TILLERMAN_HOME": str(tmp_path / "b")}
    script = f'ulimit {limit} && exec "$0" -m tillerman {words}'
    argv = ["sh", "-c", script, sys.executable]
    done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, timeout=60, check=False)
    errors = done.stderr.decode()
    assert "this is a bug" not in errors, errors
    assert "Traceback" not in errors, errors
    assert done.returncode == 0 or "error: " in errors, errors


@pytest.fixture
def small_volume(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "volume"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=300k", "none", str(folder)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mount is not allowed here")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(volume: Path) -> None:
    with (volume / "ballast").open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * 1024)


def test_a_setting_that_does_not_fit_on_the_disk_is_not_called_lost_output(
    tmp_path: Path, small_volume: Path
) -> None:
    fill(small_volume)
    setting = tillerman(
        tmp_path, "config", "set", "agent", "mock", TILLERMAN_HOME=str(small_volume / "home")
    )
    errors = setting.communicate(timeout=20)[1].decode()
    assert (setting.returncode, errors.splitlines()[0]) == (
        1,
        f"error: {small_volume}/home/config.toml: No space left on device",
    )


def test_an_export_that_does_not_fit_on_the_disk_leaves_no_file(
    tmp_path: Path, small_volume: Path
) -> None:
    reported = json.dumps([{"say": "x" * 100_000}])
    tillerman(tmp_path, "run", "-a", "mock", reported).communicate(timeout=30)
    fill(small_volume)
    file = small_volume / "session.md"
    export = tillerman(tmp_path, "sessions", "export", "last", "-o", str(file))
    errors = export.communicate(timeout=20)[1].decode()
    assert (export.returncode, errors) == (
        2,
        f"error: cannot write {file}: No space left on device\nhint: choose another file with -o\n",
    )
    assert not file.exists()


def test_a_run_that_waits_for_space_on_the_disk_reports_it(
    tmp_path: Path, small_volume: Path
) -> None:
    run = tillerman(
        tmp_path, "run", "-a", "mock", '[{"say":"Hello."}]', TILLERMAN_HOME=str(small_volume)
    )
    try:
        assert run.stderr
        os.set_blocking(run.stderr.fileno(), False)
        result = b""
        end = time.monotonic() + 20
        while b"the disk of the store is full" not in result:
            assert time.monotonic() < end, result
            result += run.stderr.read() or b""
            time.sleep(0.05)
        run.send_signal(signal.SIGINT)
        time.sleep(0.3)
        run.send_signal(signal.SIGINT)
        assert run.wait(10) == 130
    finally:
        run.kill()
        run.communicate()
