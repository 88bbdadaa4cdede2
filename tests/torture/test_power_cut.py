"""Power cuts under a writing store: no acknowledged entry may be missing afterwards."""

from __future__ import annotations

import fcntl
import os
import random
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests import CHECKOUT
from tillerman.store.database import Database
from tillerman.store.event_log import EventLog

EXT4_IOC_SHUTDOWN, NO_LOG_FLUSH = 0x8004587D, 2
CUTS = int(os.environ.get("TILLERMAN_CUTS", "50"))
SESSION = "session"

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0, reason="cutting a volume's power needs root"
)


class Volume:
    """An ext4 file system in a file, whose power can be cut."""

    def __init__(self, folder: Path) -> None:
        self.image = folder / "disk.img"
        self.mounted = folder / "mounted"
        self.mounted.mkdir()
        with self.image.open("wb") as image:
            image.truncate(96 * 1024 * 1024)
        self._run("mkfs.ext4", "-q", str(self.image))

    def mount(self) -> None:
        self._run("mount", "-o", "loop", str(self.image), str(self.mounted))

    def unmount(self) -> None:
        self._run("umount", "--lazy", str(self.mounted))

    def plug_in_again(self) -> None:
        """Mounts a copy of the disk: another mount namespace may still have the dead one."""
        self.unmount()
        copy = self.image.with_name("copy.img")
        self._run("cp", "--sparse=always", str(self.image), str(copy))
        self.image.unlink()
        self.image = copy.rename(self.image.with_name(f"disk-{time.monotonic_ns()}.img"))
        self.mount()

    def cut(self) -> None:
        """Drops what the kernel has in memory and has not synced, from here on."""
        descriptor = os.open(self.mounted, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, EXT4_IOC_SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
        finally:
            os.close(descriptor)

    def _run(self, *command: str) -> None:
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise OSError(f"{command[0]}: {done.stderr.strip()}")


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Volume]:
    try:
        volume = Volume(tmp_path)
        volume.mount()
    except OSError as error:
        pytest.skip(f"no loop mounts here: {error}")
    yield volume
    with suppress(OSError):
        volume.unmount()


def one_cut(volume: Volume, path: Path, seconds: float) -> tuple[int, int]:
    """The last entry acknowledged before the cut, and the last one stored after it.

    Acknowledgements during the cut do not count: the kernel may answer an fsync that overlaps it
    with success, where a machine without power would not answer.
    """
    writer = subprocess.Popen(
        [sys.executable, "-m", "tests.store.store_child", "stream", path, SESSION],
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert writer.stdout
    try:
        writer.stdout.readline()
        time.sleep(seconds)
        os.set_blocking(writer.stdout.fileno(), False)
        acknowledged = writer.stdout.read()
        volume.cut()
    finally:
        writer.kill()
        writer.wait(10)
        writer.stdout.close()
    volume.plug_in_again()
    database = Database.open(path)
    held = EventLog(database).last_seq(SESSION)
    seen = EventLog(database).since(SESSION, max(0, held - 2000), limit=2000)
    assert [entry.seq for entry in seen] == list(range(max(0, held - 2000) + 1, held + 1))
    assert database.check() == ""
    database.close()
    return int((acknowledged or b"0\n").split(b"\n")[-2]), held


def cut_often(volume: Volume, cuts: int) -> None:
    path = volume.mounted / "state" / "tillerman.db"
    dice = random.Random(cuts)
    results = [one_cut(volume, path, dice.uniform(0.05, 0.3)) for _ in range(cuts)]
    assert [(acknowledged, held) for acknowledged, held in results if held < acknowledged] == []
    assert results[-1][0] > results[0][0]  # it did write on after each cut


def test_two_power_cuts_lose_nothing_acknowledged(volume: Volume) -> None:
    cut_often(volume, 2)


@pytest.mark.torture
@pytest.mark.timeout(900)
def test_many_power_cuts_lose_nothing_acknowledged(volume: Volume) -> None:
    cut_often(volume, CUTS)
