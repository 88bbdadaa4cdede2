"""A store that cannot be written can still be listed: on a read-only file system, or of others."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from tests.mcp.mcp_desk import Machine, started, text, until

pytestmark = pytest.mark.timeout(120)

LISTINGS = (
    ("sessions", "list", "--json"),
    ("sessions", "show", "--json", "last"),
    ("ps", "--all", "--json"),
    ("requests", "list", "--json"),
)


def run_read_only(machine: Machine, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs with the store's folder mounted read-only, for this command alone."""
    folder = machine.tillerman
    mount = f"mount --bind {folder} {folder} && mount -o remount,ro,bind {folder}"
    alone = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-rm"]
    return subprocess.run(
        [*alone, "sh", "-c", f'{mount} && exec "$@"', "sh", *machine.command(*words)],
        cwd=machine.project,
        env=machine.environment,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.fixture(params=["it ended", "it was killed"])
def left(request: pytest.FixtureRequest, machine: Machine) -> Machine:
    """A store as a server leaves it; a killed one leaves a log that is not in the store yet."""
    if run_read_only(machine, "--version").returncode:
        machine.tillerman.mkdir(exist_ok=True)
        if (done := run_read_only(machine, "--version")).returncode:
            pytest.skip(f"nothing can be mounted here: {done.stderr}")
    wire = machine.greeted("--approve", "auto")
    process = started(wire, "echo kept", mode="async")
    until(lambda: "finished" in text(wire.call("poll_process", process_id=process)))
    wire.call("write_file", path="kept", content="kept\n")
    if request.param == "it ended":
        assert wire.end() == 0
    else:
        wire.process.send_signal(signal.SIGKILL)
        wire.wait()
    return machine


def test_a_read_only_store_is_listed_like_any_other(left: Machine) -> None:
    found = [run_read_only(left, *words) for words in LISTINGS]
    for words, one in zip(LISTINGS, found, strict=True):
        assert (one.returncode, one.stderr) == (0, ""), words
        assert one.stdout
    assert "kept" in found[1].stdout and "echo kept" in found[2].stdout


def test_what_would_write_is_refused_with_the_reason(left: Machine) -> None:
    for words in (
        ("run", "-a", "mock", "hello"),
        ("sessions", "delete", "-y", "last"),
        ("mcp", "serve", "--http", "0"),
    ):
        refused = run_read_only(left, *words)
        assert refused.returncode == 1 and "not writable" in refused.stderr, refused
        assert "this is a bug" not in refused.stderr
