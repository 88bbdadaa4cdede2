"""Probes whether the exec gate is available on this machine."""

from __future__ import annotations

import errno
import os

from tillerman.supervision.exec_gate import seccomp
from tillerman.supervision.exec_gate.exec_call import open_memory


def refusal(*, no_new_privileges: bool) -> str | None:
    """Returns why the gate is unavailable, by installing the filter in this process for good."""
    if reason := seccomp.unsupported():
        return reason
    try:
        os.close(seccomp.install(no_new_privileges=no_new_privileges))
    except OSError as error:
        return _REASONS.get(error.errno or 0) or f"seccomp: {error.strerror}"
    if only_ancestors_may_read():
        return None
    try:
        os.close(open_memory(os.getppid()))
    except OSError as error:
        scope = _ptrace_scope()
        why = f"kernel.yama.ptrace_scope is {scope}" if scope else error.strerror
        return f"the memory of other processes cannot be read: {why}"
    return None


_REASONS = {
    errno.EBUSY: "another program already listens to the system calls of this one, as happens when"
    " it runs inside another tillerman",
    errno.EACCES: "it needs CAP_SYS_ADMIN, or the no_new_privs flag",
    errno.ENOSYS: "the kernel has no seccomp filters",
    errno.EINVAL: "the kernel has no seccomp listeners (they came with Linux 5.0)",
}


def only_ancestors_may_read() -> bool:
    return _ptrace_scope() == "1" and os.geteuid() != 0


def _ptrace_scope() -> str:
    """Returns Yama's ptrace scope: 0 or "" all, 1 descendants, 2 only root, 3 no process."""
    try:
        file = os.open("/proc/sys/kernel/yama/ptrace_scope", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    scope = os.read(file, 8).decode().strip()
    os.close(file)
    return scope


def main() -> None:
    """Entry point run by `settings.probe`: prints the reason, or nothing when available."""
    os.write(1, (refusal(no_new_privileges=True) or "").encode())
