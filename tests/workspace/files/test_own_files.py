"""Files of the harness itself: neither snapshots of a folder nor searches open them."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path

from tillerman.workspace.files import searching
from tillerman.workspace.files.access.confined_root import ConfinedRoot
from tillerman.workspace.files.file_signatures import capture, compare

LOCKED = """
import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        sys.exit(1)
"""


def is_locked(file: Path) -> bool:
    """Asks in another process, as the locks of a database are those of a process."""
    return subprocess.run([sys.executable, "-c", LOCKED, file], check=False).returncode == 1


def test_a_file_that_the_process_itself_holds_keeps_its_locks(tmp_path: Path) -> None:
    store, other = tmp_path / "state/store.db", tmp_path / "a.txt"
    store.parent.mkdir()
    store.write_bytes(b"rows")
    other.write_text("one")
    with store.open("r+b") as held:
        fcntl.lockf(held, fcntl.LOCK_EX)
        assert is_locked(store)
        before = capture(tmp_path, 5)
        held.write(b"more rows")
        held.flush()
        other.write_text("two")
        changed = [change.path for change in compare(before, 5)]
        assert is_locked(store)
    assert changed == ["a.txt"]


def test_a_search_leaves_the_locks_of_the_store(tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    store.write_text("needle")
    (tmp_path / "a.txt").write_text("needle")
    with store.open("r+b") as held, ConfinedRoot(tmp_path) as root:
        fcntl.lockf(held, fcntl.LOCK_EX)
        found = searching.search_files(root, "needle")
        assert is_locked(store)
    assert [match.path for match in found.matches] == ["a.txt"]
