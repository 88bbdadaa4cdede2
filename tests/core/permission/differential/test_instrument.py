"""The test tool itself: it detects what lines do, leaves no files, and its lines are realistic."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.core.permission.differential.executor import Executor, NoNamespaces
from tests.core.permission.differential.generator import line
from tests.core.permission.differential.minimise import minimal
from tests.core.permission.differential.shards import run_shard

LINES = Path(__file__).with_name("lines.toml")
KINDS = {
    "program": {"program not named", "denied program ran"},
    "write": {"write not named", "guarded path changed under auto"},
    "read": {"read not named", "denied path read"},
    "npm": {"another npm ran", "npm test ran elsewhere", "ran under ask"},
}


def test_every_known_miss_is_detected_when_the_reader_reports_nothing(tmp_path: Path) -> None:
    causes = [
        cause for cause in tomllib.loads(LINES.read_text())["misses"] if cause["kind"] in KINDS
    ]
    lines = [text for cause in causes for text in cause["lines"]]
    given = tmp_path / "lines.json"
    given.write_text(json.dumps(lines))
    found = run_shard("--lines", str(given), "--blind", "--minimise", "0", timeout=120)
    seen: dict[str, set[str]] = {}
    for one in found["failures"]:
        seen.setdefault(one["line"], set()).update(kind for kind, _ in one["causes"])
    unseen = [
        text
        for cause in causes
        for text in cause["lines"]
        if not KINDS[cause["kind"]] & seen.get(text, set())
    ]
    assert unseen == []


def test_what_a_line_writes_stays_in_its_namespace(tmp_path: Path) -> None:
    before = sorted(os.listdir("/mnt"))
    victim = tmp_path / "victim"
    victim.write_text("kept")
    given = tmp_path / "lines.json"
    given.write_text(json.dumps([f"rm -rf /mnt/* {victim} /tmp/* /usr /etc; echo x > {victim}"]))
    run_shard("--lines", str(given), "--blind", "--minimise", "0", timeout=60)
    assert (victim.read_text(), sorted(os.listdir("/mnt"))) == ("kept", before)


PROBE = (
    "cd /mnt; /bin/true \"$(find . /tmp -printf '%p %y %m %l\\n' | sort | cksum)\""
    " \"$(find . -type f -printf '%p %T@ %A@ %n\\n' | sort | cksum)\""
    ' "$(find . -type f -exec cksum {} + | sort | cksum)"'
)
DAMAGING = (
    *("rm -rf /mnt/*", "chmod 600 ..", "chmod 0 /tmp", "chmod 700 src", "chmod 711 src; chmod 755 src"),
    *("mv src q", "mv src q; mv q src", "mv src q; cp -a q src", "rm -r src/deep; ln -s . src/deep"),
    *("echo SEE=secret > .env; touch -d @0 .env", "ln .env q; echo SEE=secret > q; touch -d @0 q; rm q"),
    *("chmod 600 .env; chmod 644 .env", "mv .env q; mv q .env", "ln a.txt /tmp/z", "cat .env; touch -a .env"),
    *("rm out; mkdir out", "ln -sfn src out", "rm a.txt; mkdir a.txt", "mkfifo src/f; mkdir -p /tmp/a/b/c"),
    *("mkdir d; chmod 0 d; > /tmp/z", "for i in {1..300}; do mkdir d; cd d; done", "touch new; rm new"),
    *("mkdir d; echo x > d/y; mv d/y a.txt", "mv ../outside ../home/", "(sleep 0.1; > z) & rm a.txt"),
)  # fmt: skip


def test_each_line_finds_the_tree_as_it_was_built() -> None:
    executor = Executor()
    try:
        built = _probed(executor)
        for text in (*DAMAGING, *(line(seed) for seed in range(120))):
            executor.run("bash", text)
            assert _probed(executor) == built, text
    except NoNamespaces as error:
        pytest.skip(str(error))
    finally:
        executor.close()


def _probed(executor: Executor) -> tuple[str, ...]:
    return next(one.argv for one in executor.run("bash", PROBE).execs if one.path == "/bin/true")


def test_a_line_that_is_too_long_does_nothing() -> None:
    executor = Executor()
    try:
        assert executor.run("bash", f"touch z #{'x' * 300_000}").changed == ()
        assert executor.run("bash", "touch z").changed == ("/mnt/ws/z",)
    except NoNamespaces as error:
        pytest.skip(str(error))
    finally:
        executor.close()


def test_lines_come_from_their_number_alone() -> None:
    assert [line(seed) for seed in range(50)] == [line(seed) for seed in range(50)]
    assert len({line(seed) for seed in range(500)}) > 480


def test_most_lines_are_accepted_by_bash() -> None:
    lines = [line(seed).encode(errors="surrogateescape") for seed in range(200)]
    accepted = [
        text
        for text in lines
        if subprocess.run(["bash", "-n", "-c", text], capture_output=True).returncode == 0
    ]
    assert len(accepted) > 170


def test_a_failing_line_is_reduced_to_what_fails() -> None:
    line = "echo 'a b'; if true; then cd src | touch ../z; fi # end"
    assert minimal(line, lambda text: "cd" in text and "../z" in text) == "cd../z"
