"""A project folder that is unreadable or changes meanwhile gives a clear error or none."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from tillerman.config.project_trust import read_folder

UNREADABLE = """
import os, sys
from pathlib import Path
from tillerman.config.project_trust import read_folder
from tillerman.core.errors import ConfigError
if os.geteuid() == 0:
    os.setuid(65534)  # whom the modes of files mean
try:
    read_folder(Path(sys.argv[1]))
except ConfigError as error:
    print(error.message)
"""


def test_a_file_that_may_not_be_read_is_an_error_that_names_it() -> None:
    with tempfile.TemporaryDirectory() as project:  # not pytest's, which is for its user alone
        Path(project).chmod(0o755)
        secret = Path(project) / ".tillerman" / "agents" / "secret.md"
        secret.parent.mkdir(mode=0o755, parents=True)
        secret.touch(mode=0)
        words = [sys.executable, "-c", UNREADABLE, project]
        done = subprocess.run(words, capture_output=True, text=True, timeout=30)
    assert done.stdout == f"{secret} cannot be read: Permission denied\n", done.stderr


def test_files_that_come_and_go_while_the_folder_is_read_break_nothing(tmp_path: Path) -> None:
    folder = tmp_path / ".tillerman"
    folder.mkdir()
    (folder / "config.toml").write_text("")
    over = threading.Event()

    def edit() -> None:
        while not over.is_set():
            for name in ("a.swp", "b.swp", "c.swp"):
                (folder / name).touch()
                (folder / name).unlink()

    editor = threading.Thread(target=edit)
    editor.start()
    try:
        for _ in range(2000):
            found = read_folder(tmp_path)
            assert found
            assert "config.toml" in found.files
    finally:
        over.set()
        editor.join()
