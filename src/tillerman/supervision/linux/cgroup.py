"""A control group (cgroup v2) for the process tree of one program."""

# pathlib and contextlib would cost every start some milliseconds
# ruff: noqa: PTH102, PTH106

from __future__ import annotations

import os
import select
import time

from tillerman.supervision.linux.process_table import read


class NoCgroup(Exception):
    """This process has no usable v2 control group for its children; the text says why."""


def own_folder() -> str:
    """Returns the folder of this process's v2 group, wherever the hierarchy is mounted."""
    mine = next(
        (line[3:] for line in read("/proc/self/cgroup").decode().splitlines() if line[:3] == "0::"),
        None,
    )
    if mine is None:
        raise NoCgroup("the kernel gives this process no cgroup v2 membership")
    for line in read("/proc/self/mountinfo").decode().splitlines():
        before, _, after = line.partition(" - ")
        if not after.startswith("cgroup2 "):
            continue
        root, point = before.split()[3:5]
        if root == "/":
            return (point + mine).rstrip("/")
        if (mine + "/").startswith(root + "/"):
            return point + mine.removeprefix(root)
    raise NoCgroup("cgroup v2 is not mounted")


class Cgroup:
    def __init__(self, folder: str) -> None:
        self.folder = folder

    @classmethod
    def create(cls, name: str) -> Cgroup:
        group = cls(f"{own_folder()}/{name}")
        os.mkdir(group.folder)
        return group

    def enter(self) -> None:
        self._write("cgroup.procs", b"0")

    def members(self) -> set[int]:
        """Returns all pids, including those in nested groups."""
        try:
            found = set(map(int, read(f"{self.folder}/cgroup.procs").split()))
        except FileNotFoundError:
            return set()
        for inner in self._inner():
            found |= inner.members()
        return found

    def kill(self, within: float) -> bool:
        """Sends SIGKILL to every member, however it was started; True once the group is empty."""
        try:
            self._write("cgroup.kill", b"1")
            return self._wait_until_empty(within)
        except FileNotFoundError:
            return True

    def remove(self) -> None:
        """Removes the folder and nested groups; the kernel refuses while a member is alive."""
        try:
            for inner in self._inner():
                inner.remove()
            os.rmdir(self.folder)
        except FileNotFoundError:
            pass

    def _inner(self) -> list[Cgroup]:
        with os.scandir(self.folder) as entries:
            return [Cgroup(entry.path) for entry in entries if entry.is_dir()]

    def _wait_until_empty(self, within: float) -> bool:
        deadline = time.monotonic() + within
        events = os.open(f"{self.folder}/cgroup.events", os.O_RDONLY | os.O_CLOEXEC)
        try:
            changed = select.poll()
            changed.register(events, select.POLLPRI)
            while b"populated 1" in os.pread(events, 4096, 0):
                if (left := deadline - time.monotonic()) <= 0:
                    return False
                changed.poll(left * 1000)
            return True
        finally:
            os.close(events)

    def _write(self, name: str, text: bytes) -> None:
        number = os.open(f"{self.folder}/{name}", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(number, text)
        finally:
            os.close(number)
