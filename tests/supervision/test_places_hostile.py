"""Truncated or wrong records of placed files: every start succeeds, and no user file is removed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tillerman.supervision.client.orphan_sweep import sweep

FULL = """
import resource, sys
from tillerman.supervision.warden.temporary_files import TemporaryFiles
folder, path = sys.argv[1:]
places = TemporaryFiles(folder)
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
assert places.put(path, b"x" * 2000)  # the record, twice as long, still fits
places.take_back()
assert not places.put(path, b"x" * 4000)
places.take_back()
"""


def _hex(path: Path) -> str:
    return str(path).encode().hex()


@pytest.mark.parametrize(
    "line", ["file", "file zz 00", "file 2f 0", "folder zz", "folder a b", "\0"]
)
def test_a_broken_record_is_skipped_and_the_rest_is_removed(tmp_path: Path, line: str) -> None:
    folder = tmp_path / "spawns" / "one"
    folder.mkdir(parents=True)
    (folder / "lease").touch()
    put = tmp_path / "AGENTS.md"
    put.write_bytes(b"words")
    (folder / "places").write_text(f"{line}\nfile {_hex(put)} {b'words'.hex()}\n")
    sweep(tmp_path / "spawns")
    assert not folder.exists()
    assert not put.exists()


def test_on_a_full_disk_nothing_is_left_of_a_file_that_could_not_be_placed(tmp_path: Path) -> None:
    folder = tmp_path / "warden"
    folder.mkdir()
    path = tmp_path / "AGENTS.md"
    subprocess.run([sys.executable, "-c", FULL, folder, path], check=True, timeout=30)
    assert sorted(tmp_path.iterdir()) == [folder]
