"""Warden side of the exec gate: starts it, updates its rules, ends it."""

# ruff: noqa: SIM105  # contextlib would cost every start some milliseconds

from __future__ import annotations

import os

from tillerman.supervision.exec_gate import gate as gate_process
from tillerman.supervision.exec_gate.entry import GateEntry
from tillerman.supervision.exec_gate.exec_call import open_memory
from tillerman.supervision.linux import process_table
from tillerman.supervision.protocol.channel import Channel, frame, rights

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    import socket
    from collections.abc import Callable
    from typing import Any
else:
    import _signal as signal
    import _socket as socket


class GateProcess:
    """A running gate process; `start` forks it."""

    def __init__(
        self, pid: int, control: Channel, entry_socket: socket.socket, *, no_new_privileges: bool
    ) -> None:
        self.pid = pid
        self.control = control
        self._entry_socket = entry_socket
        self._no_new_privileges = no_new_privileges

    @classmethod
    def start(
        cls, settings: dict[str, Any], close_all_but: Callable[[set[int]], None]
    ) -> GateProcess | str:
        """Returns the gate, or the reason why there is none."""
        ours, theirs = (Channel(end) for end in socket.socketpair())
        entry_socket, registrations = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            close_all_but({theirs.fileno(), registrations.fileno()})
            gate_process.run(theirs, registrations, settings)
        theirs.close()
        registrations.close()
        gate = cls(pid, ours, entry_socket, no_new_privileges=settings["no_new_privileges"])
        reason = gate._await_ready()
        if reason is None:
            return gate
        gate.end()
        return reason

    def _await_ready(self) -> str | None:
        try:
            while not (messages := self.control.receive()):
                pass
        except EOFError:
            return "the gate process exited at startup"
        return messages[0][1] or None

    def entry(self) -> GateEntry:
        """Returns the entry for a program that is about to start."""
        return GateEntry(self._entry_socket.fileno(), no_new_privileges=self._no_new_privileges)

    def update(self, policy: bytes) -> None:
        try:
            self.control.send("policy", policy)
        except OSError:
            pass  # the gate has ended, which SIGCHLD reports

    def open_memory(self, pid: int) -> None:
        """Opens a process's memory for the gate, where only its ancestors may read it."""
        try:
            memory = open_memory(pid)
        except OSError as error:
            self.control.send("memory", error.errno)
            return
        try:
            self.control.socket.sendmsg([frame(("memory", 0))], rights([memory]))
        finally:
            os.close(memory)

    def end(self) -> None:
        self.close()
        process_table.send(self.pid, signal.SIGKILL)

    def close(self) -> None:
        self.control.close()
        self._entry_socket.close()
