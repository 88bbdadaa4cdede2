"""A file is checked and replaced in one step: no update is lost, whichever process writes it."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.workspace import edit_racers
from tillerman.workspace.files import inotify
from tillerman.workspace.files.access.confined_root import ConfinedRoot
from tillerman.workspace.files.access.path_locks import TEMPORARY, PathLocks
from tillerman.workspace.files.file_tools import Files
from tillerman.workspace.files.refusal import Refused

pytestmark = pytest.mark.timeout(300)

EDITS = int(os.environ.get("TILLERMAN_TORTURE_EDITS", "10000"))


def racer(*words: str) -> subprocess.Popen[str]:
    command = [sys.executable, edit_racers.__file__, *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout and process.stdout.readline() == "ready\n"
    return process


def ended(process: subprocess.Popen[str]) -> str:
    """Its output; not by `communicate`, which drops what is in the buffer."""
    assert process.stdout and process.stderr
    with process:
        out, errors = process.stdout.read(), process.stderr.read()
    assert process.returncode == 0, errors
    return out


def temporary(root: Path) -> list[str]:
    return [path.name for path in root.iterdir() if path.name.startswith(TEMPORARY)]


def race(root: Path, locks: Path, edits: int, named: str) -> int:
    (root / "a").write_text("first\nlast\n")
    words = (str(root), str(locks))
    racers = [racer("edit", *words, f"r{n}", str(edits // 3), named) for n in range(3)]
    reported = [line for one in racers for line in ended(one).splitlines()]
    there = (root / "a").read_text().splitlines()
    assert len(reported) == len(set(reported))
    assert sorted(reported) == sorted(line for line in there if line not in ("first", "last"))
    assert temporary(root) == []
    return len(reported)


@pytest.mark.parametrize("named", ["unnamed", "named"])
def test_no_edit_of_three_processes_is_lost(root: Path, tmp_path: Path, named: str) -> None:
    assert race(root, tmp_path / "locks", 150, named) > 100


@pytest.mark.torture
@pytest.mark.timeout(3_600)
def test_no_edit_is_lost_in_many(root: Path, tmp_path: Path) -> None:
    for number in range(EDITS // 600):
        folder = tmp_path / f"locks-{number}"
        print(race(root, folder, 600, ("unnamed", "named")[number % 2]), end=" ", flush=True)


def follow(root: Path, tmp_path: Path, edits: int) -> str:
    (root / "a").write_text("0 new\n")
    stop = tmp_path / "stop"
    drafts = tmp_path / "locks/drafts"
    drafts.mkdir(parents=True)
    editor = racer("replace", str(root), str(drafts), str(stop))
    try:
        follower = racer("follow", str(root), str(tmp_path / "locks"), str(edits))
        changed = json.loads(ended(follower))
    finally:
        stop.touch()
    versions, strange = json.loads(ended(editor))
    lost = [one for one in strange if one[1] in changed]
    assert lost == [], f"of {versions} versions"
    assert temporary(root) == []
    return f"{len(changed)} edits of {versions} versions, {len(strange)} put back"


def test_an_editor_without_locks_loses_no_edit_to_us(root: Path, tmp_path: Path) -> None:
    follow(root, tmp_path, 40)


@pytest.mark.torture
@pytest.mark.timeout(3_600)
def test_an_editor_without_locks_loses_no_edit_in_many(root: Path, tmp_path: Path) -> None:
    print(follow(root, tmp_path, EDITS // 4))


def test_a_write_that_changed_the_file_in_place_is_not_lost(root: Path) -> None:
    """Of the same length, and with a clock that did not advance."""
    path = root / "a"
    path.write_text("old text\n")

    with ConfinedRoot(root) as confined, confined.slot("a") as slot:
        seen = slot.open_existing()
        assert seen

        def is_unchanged() -> bool:
            return path_text(seen.file) == "old text\n"

        def path_text(file: int) -> str:
            return os.pread(file, 100, 0).decode()

        def chunks() -> list[bytes]:
            with path.open("r+") as other:
                other.write("new")
            os.utime(path, ns=(seen.status.st_atime_ns, seen.status.st_mtime_ns))
            return [b"mine\n"]

        with pytest.raises(Refused, match="changed by another program"):
            slot.put(chunks(), seen, is_unchanged=is_unchanged)
    assert path.read_text() == "new text\n" and temporary(root) == []


@pytest.fixture
def elsewhere(root: Path) -> Iterator[Path]:
    """A folder on another file system than the workspace."""
    for place in ("/dev/shm", "/var/tmp", "/tmp", str(Path.home())):
        if Path(place).is_dir() and Path(place).stat().st_dev != root.stat().st_dev:
            with tempfile.TemporaryDirectory(dir=place) as folder:
                yield Path(folder)
                return
    pytest.skip("there is one file system alone")


def kill_writers(root: Path, locks: Path, drafts: Path) -> int:
    """How often a temporary file existed after a kill; the next writer finds none."""
    (root / "a").write_text("first\nlast\n")
    chance = random.Random(3)
    left = number = 0
    while number < 8 or (not left and number < 80):
        number += 1
        process = racer("edit", str(root), str(locks), f"k{number}", "100000", "named")
        while process.poll() is None and (root / "a").read_text() == "first\nlast\n":
            time.sleep(0.001)
        time.sleep(chance.uniform(0, 0.03))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        left += len(temporary(drafts))
        assert drafts == root or temporary(root) == []
        PathLocks(locks).recover()
        assert temporary(drafts) == []
        with ConfinedRoot(root, locks=PathLocks(locks)) as confined:
            start = time.monotonic()
            Files(confined, root).write_file("a", "first\nlast\n")
            assert time.monotonic() - start < 5
    assert [path.name for path in root.iterdir()] == ["a"]
    return left


def test_killed_writers_leave_no_lock_and_no_temporary_file(root: Path, tmp_path: Path) -> None:
    locks = tmp_path / "locks"
    assert kill_writers(root, locks, locks / "drafts"), "no kill came in the midst of a write"


def test_killed_writers_leave_nothing_in_the_workspace_for_long(
    root: Path, elsewhere: Path
) -> None:
    assert kill_writers(root, elsewhere / "locks", root), "no kill came in the midst of a write"


def test_no_temporary_name_is_ever_seen_in_the_workspace(root: Path, tmp_path: Path) -> None:
    (root / "a").write_text("0")
    watch = inotify.Inotify()
    watch.add(str(root), inotify.CREATE | inotify.MOVED_TO)
    with ConfinedRoot(root, locks=PathLocks(tmp_path / "locks")) as confined:
        files = Files(confined, tmp_path / "exports")
        for number in range(20):
            files.write_file("a", f"{number}")
            files.write_file(f"new-{number}", "x")
            files.replace_text_in_file("a", f"{number}", "text")
    seen = {one.name.decode() for one in watch.read()}
    watch.close()
    assert seen == {"a", *(f"new-{number}" for number in range(20))}


def test_a_lock_that_another_process_holds_is_waited_for_and_then_reported(
    root: Path, tmp_path: Path
) -> None:
    (root / "a").write_text("x")
    locks = PathLocks(tmp_path / "locks")
    folder = os.open(root, os.O_RDONLY)
    try:
        with (
            locks.hold(folder, "a"),
            pytest.raises(Refused, match="locked by another process"),
            locks.hold(folder, "A", seconds=0.05),
        ):
            pass
        with locks.hold(folder, "a"):
            pass
    finally:
        os.close(folder)
    assert [path.name for path in root.iterdir()] == ["a"]
