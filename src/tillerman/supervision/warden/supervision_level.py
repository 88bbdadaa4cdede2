"""Selects the supervision level by probing what this machine supports."""

# pathlib and contextlib would cost every start some milliseconds
# ruff: noqa: PTH110, PTH116, PTH208

from __future__ import annotations

import marshal
import os
import select

from tillerman.supervision.linux import process_table, syscalls
from tillerman.supervision.linux.cgroup import Cgroup, NoCgroup
from tillerman.supervision.linux.pid_namespace import fork_init
from tillerman.supervision.linux.process_table import LINUX

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
else:
    import _signal as signal

ORDER = ("namespace", "cgroup", "subreaper", "group")
_WITHIN = 2.0
_FINE = "fine"

# In a user namespace these seem to belong to another user, and programs then reject them.
_OWNED = (
    "/etc/passwd",
    "/etc/ssh",
    "/etc/ssh/ssh_config",
    "/etc/sudoers",
    "/etc/sudo.conf",
    "/usr/bin/sudo",
    "/usr/bin/ssh",
    "/",
)


class Unavailable(Exception):
    """A level that this machine does not support, with the reason."""

    def __init__(self, level: str, reason: str) -> None:
        super().__init__(level, reason)
        self.level = level
        self.reason = reason


class LevelChoice:
    """The chosen level, whether it needs a user namespace, and why not a higher one."""

    def __init__(self, level: str, notes: tuple[str, ...], *, user: bool = False) -> None:
        self.level = level
        self.notes = notes
        self.user = user


def choose(wanted: str) -> LevelChoice:
    """Returns the requested level, or for `auto` the highest that works; else `Unavailable`."""
    notes: list[str] = []
    for level in ORDER if wanted == "auto" else (wanted,):
        reason, user = refusal(level)
        if reason is None:
            return LevelChoice(level, tuple(notes), user=user)
        if wanted == "namespace" and user and _namespace_canary(user=True, owners={}) is None:
            return LevelChoice(level, (reason,), user=True)
        notes.append(f"{level}: {reason}")
    raise Unavailable(wanted, reason or "")


def refusal(level: str) -> tuple[str | None, bool]:
    """Returns why this level is unavailable, and whether it would need a user namespace."""
    if level != "group" and not LINUX:
        return "only on Linux", False
    match level:
        case "namespace":
            return _refused_namespace()
        case "cgroup":
            return _cgroup_canary(), False
        case _:
            return None, False


def _refused_namespace() -> tuple[str | None, bool]:
    owners = _owners()
    plain = _namespace_canary(user=False, owners=owners)
    if plain is None:
        return None, False
    inside = _namespace_canary(user=True, owners=owners)
    if inside is None and os.geteuid() == 0:
        inside = "root cannot switch to another user in it"
    if inside is None:
        return None, True
    return f"{plain}; in a user namespace: {inside}", True


def _owners() -> dict[str, int]:
    owners = {}
    for path in _OWNED:
        try:
            owners[path] = os.stat(path).st_uid
        except OSError:
            continue
    return owners


def _namespace_canary(*, user: bool, owners: dict[str, int]) -> str | None:
    """Probes a namespace by entering it like a keeper; returns the error, if any."""
    read_end, write_end = os.pipe()
    try:
        init = fork_init(user=user)
    except OSError as error:
        os.close(write_end)
        os.close(read_end)
        return error.strerror
    if init == 0:
        try:
            os.write(write_end, _check_namespace(owners).encode())
        finally:
            os._exit(0)
    os.close(write_end)
    answer = _read_answer(read_end)
    process_table.send(init, signal.SIGKILL)
    os.waitpid(init, 0)
    return answer


def _check_namespace(owners: dict[str, int]) -> str:
    try:
        syscalls.mount_own_proc()
    except OSError as error:
        return f"cannot mount /proc: {error.strerror}"
    for path, owner in owners.items():
        if (seen := os.stat(path).st_uid) != owner:
            return (
                f"{path} seems to belong to user {seen} instead of {owner},"
                " so ssh and sudo would refuse to work"
            )
    child = os.fork()
    if child == 0:
        signal.pause()
    visible = str(child) in os.listdir("/proc")
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if os.getpid() == 1 and visible and os.WIFSIGNALED(status):
        return _FINE
    return "/proc does not show its processes"


def _cgroup_canary() -> str | None:
    try:
        group = Cgroup.create(f"tillerman-canary-{os.getpid()}")
    except NoCgroup as error:
        return str(error)
    except OSError as error:
        return f"cannot create a control group in {error.filename}: {error.strerror}"
    try:
        return _try_cgroup(group)
    finally:
        group.kill(_WITHIN)
        group.remove()


def _try_cgroup(group: Cgroup) -> str | None:
    if not os.path.exists(f"{group.folder}/cgroup.kill"):
        return "the kernel has no cgroup.kill (it came with Linux 5.14)"
    read_end, write_end = os.pipe()
    prober = os.getpid()
    child = os.fork()
    if child == 0:
        try:
            syscalls.die_with_parent()  # it inherits all open files of the prober
            if os.getppid() == prober:
                _pause_in(group, write_end)
        finally:
            os._exit(1)
    os.close(write_end)
    if (answer := _read_answer(read_end)) is not None:
        process_table.send(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return answer
    if not group.kill(_WITHIN):
        process_table.send(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return None if os.WIFSIGNALED(status) else "cgroup.kill does not kill"


def _pause_in(group: Cgroup, write_end: int) -> None:
    try:
        group.enter()
    except OSError as error:
        os.write(write_end, f"cannot move a process into {group.folder}: {error.strerror}".encode())
    else:
        os.write(write_end, _FINE.encode())
        os.close(write_end)
        signal.pause()


def _read_answer(read_end: int) -> str | None:
    """Reads the result of a probe: None when it succeeded, else the error."""
    ready = select.poll()
    ready.register(read_end, select.POLLIN)
    answer = os.read(read_end, 4096).decode() if ready.poll(_WITHIN * 1000) else ""
    os.close(read_end)
    return None if answer == _FINE else answer or "the probe did not finish"


def main() -> None:
    """Entry point run by `probe`: writes every level with its reason to stdout, marshalled."""
    if LINUX:
        syscalls.become_subreaper()
    os.write(1, marshal.dumps([(level, refusal(level)[0]) for level in ORDER]))
