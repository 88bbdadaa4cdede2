"""The process table: finds descendants and marked processes, and kills them.

Reads /proc on Linux. Elsewhere it uses `ps`, which is slower and reports less.
"""

# pathlib and contextlib would cost every start some milliseconds
# ruff: noqa: PTH208, SIM105

from __future__ import annotations

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Iterable
    from collections.abc import Set as AbstractSet
else:
    import _signal as signal  # the C module: its Python wrapper builds enums, 5 ms per start

LINUX = sys.platform == "linux"
MARKER = "TILLERMAN_MARKER"
PAGE = os.sysconf("SC_PAGE_SIZE")  # bytes
_STOP_ROUNDS = 64


class ProcessRow:
    """One row of the table. `start` distinguishes a process from a later one with the same pid."""

    __slots__ = ("dead", "parent", "pid", "session", "start")

    def __init__(self, pid: int, parent: int, session: int, start: str, *, dead: bool) -> None:
        self.pid = pid
        self.parent = parent
        self.session = session
        self.start = start
        self.dead = dead


def read(path: str, *, dir_fd: int | None = None) -> bytes:
    """Reads a whole small file; io.open would take twice as long per row of /proc."""
    number = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=dir_fd)
    try:
        parts = []
        while part := os.read(number, 65536):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(number)


def boot_id() -> str:
    if LINUX:
        return read("/proc/sys/kernel/random/boot_id").decode().strip()
    return _run("sysctl", "-n", "kern.boottime").strip().replace(" ", "_")


def parse_stat(stat: bytes) -> ProcessRow:
    pid, _, rest = stat.partition(b" (")
    fields = rest.rpartition(b") ")[2].split()
    return ProcessRow(
        int(pid), int(fields[1]), int(fields[3]), fields[19].decode(), dead=fields[0] in b"ZX"
    )


def find(pid: int) -> ProcessRow | None:
    if not LINUX:
        return snapshot().get(pid)
    try:
        return parse_stat(read(f"/proc/{pid}/stat"))
    except (OSError, IndexError):
        return None


def snapshot() -> dict[int, ProcessRow]:
    if not LINUX:
        return _snapshot_by_ps()
    table = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (process := find(int(name))):
            table[process.pid] = process
    return table


def descendants(roots: Iterable[int], table: dict[int, ProcessRow]) -> set[int]:
    children: dict[int, list[int]] = {}
    for process in table.values():
        children.setdefault(process.parent, []).append(process.pid)
    found: set[int] = set()
    waiting = list(roots)
    while waiting:
        for child in children.get(waiting.pop(), ()):
            if child not in found:
                found.add(child)
                waiting.append(child)
    return found


def ancestors(pid: int) -> set[int]:
    """Returns the pid itself and all its ancestors."""
    found: set[int] = set()
    while pid and pid not in found:
        found.add(pid)
        process = find(pid)
        pid = process.parent if process else 0
    return found


def children() -> set[int]:
    """Returns this process's children, from the kernel's list if it has one."""
    try:
        return set(map(int, read(f"/proc/self/task/{os.getpid()}/children").split()))
    except FileNotFoundError:
        return {row.pid for row in snapshot().values() if row.parent == os.getpid()}


def carriers(marker: str, table: Iterable[int]) -> set[int]:
    """Returns processes whose environment at exec held the marker or `MARKER.SUFFIX`."""
    if not LINUX:
        return _carriers_by_ps(marker)
    wanted = f"\0{MARKER}={marker}".encode()
    found = set()
    for pid in table:
        held = b"\0" + environment(pid)
        if wanted + b"\0" in held or wanted + b"." in held:
            found.add(pid)
    return found


def environment(pid: int) -> bytes:
    try:
        return read(f"/proc/{pid}/environ")
    except OSError:
        return b""


def send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass  # already ended, or another user's: the caller looks again and reports what is left


def end_children(spare: AbstractSet[int], reap: Callable[[], object], within: float) -> set[int]:
    """Kills all children of a subreaper until none is left; returns those that survive.

    Children of a killed child become children of this process, so the tree dies from the top: no
    parent lives to see its child die and start another. Looking only at direct children is fast
    enough to catch a process that forks and exits in a loop; a walk over the table is not.
    """
    deadline = time.monotonic() + within
    before: set[int] = set()
    while True:
        reap()
        found = children() - spare
        for pid in found:
            send(pid, signal.SIGKILL)
        if not found:
            return found
        if time.monotonic() > deadline:
            return {pid for pid in found if (row := find(pid)) and not row.dead}
        if found == before:
            time.sleep(0.0005)
        before = found


def end(look: Callable[[], set[int]], within: float) -> set[int]:
    """Stops, then kills, all processes that `look` finds, until it finds none twice.

    For callers that are not a subreaper. Processes are stopped first, so that none sees another die
    and starts a new one. Twice, because a process in the middle of exec shows no environment.
    """
    deadline = time.monotonic() + within
    quiet = 0
    while quiet < 2:
        stopped: set[int] = set()
        for _ in range(_STOP_ROUNDS):
            fresh = look() - stopped
            if not fresh:
                break
            for pid in fresh:
                send(pid, signal.SIGSTOP)
            stopped |= fresh
        for pid in stopped:
            send(pid, signal.SIGKILL)
        if stopped and time.monotonic() > deadline:
            return stopped
        quiet = 0 if stopped else quiet + 1
        time.sleep(0.001)
    return set()


def _run(*argv: str) -> str:
    import subprocess

    return subprocess.run(argv, capture_output=True, text=True, check=False).stdout


def _snapshot_by_ps() -> dict[int, ProcessRow]:
    table = {}
    for line in _run("ps", "-A", "-o", "pid=,ppid=,stat=,lstart=").splitlines():
        pid, parent, state, start = line.split(None, 3)
        dead = state.startswith("Z")
        row = ProcessRow(int(pid), int(parent), 0, "_".join(start.split()), dead=dead)
        table[row.pid] = row
    return table


def _carriers_by_ps(marker: str) -> set[int]:
    wanted = f" {MARKER}={marker}"
    rows = _run("ps", "-A", "-E", "-ww", "-o", "pid=,command=").splitlines()
    return {
        int(row.split(None, 1)[0])
        for row in rows
        if wanted + " " in row + " " or wanted + "." in row
    }
