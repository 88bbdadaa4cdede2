"""A socket for this user alone, opened while the rest of the process continues."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

from tillerman.sessions.remote.private_socket import PrivateSocketServer


async def _receive(reader: object, writer: object) -> None:
    pass


async def test_folders_created_meanwhile_can_be_entered(tmp_path: Path) -> None:
    modes: set[int] = set()
    done = threading.Event()

    def make_folders() -> None:
        number = 0
        while not done.is_set():
            folder = tmp_path / f"folder-{number}"
            folder.mkdir(mode=0o700)
            modes.add(stat.S_IMODE(folder.stat().st_mode))
            folder.rmdir()
            number += 1

    thread = threading.Thread(target=make_folders)
    thread.start()
    before = os.umask(0o022)
    try:
        for number in range(300):
            reception = PrivateSocketServer(_receive)
            path = tmp_path / f"{number}.sock"
            await reception.open(path)
            modes.add(stat.S_IMODE(path.stat().st_mode) | 0o100)
            await reception.close()
            assert not path.exists()
    finally:
        done.set()
        thread.join()
        os.umask(before)
    assert modes == {0o700}
