"""Program side of the exec gate: installs the filter right before the first exec."""

from __future__ import annotations

import errno
import os

from tillerman.supervision.exec_gate import seccomp
from tillerman.supervision.protocol.channel import frame, rights

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
else:
    import _socket as socket


class GateEntry:
    """Puts the current process under the gate, so that all execs after its first are checked."""

    def __init__(self, entry_socket: int, *, no_new_privileges: bool) -> None:
        self.entry_socket = entry_socket
        self._no_new_privileges = no_new_privileges
        self._installed = False

    def install(self, pid: int) -> None:
        """Installs the filter; `pid` is as the gate sees it.

        From here on no exec bypasses the gate.
        """
        listener = seccomp.install(no_new_privileges=self._no_new_privileges)
        try:
            self._send(("watch", pid), [listener])
        finally:
            os.close(listener)  # otherwise a call would wait forever if the gate dies
        self._installed = True

    def enter(self, pid: int, argv: list[bytes]) -> None:
        """Announces the program's own exec. Call it right before that exec."""
        if not self._installed:
            self.install(pid)
        self._send(("start", pid, len(argv) - 1, checksum(argv), checksum(argv[1:])), [])

    def _send(self, message: tuple[object, ...], files: list[int]) -> None:
        end = socket.socket(fileno=os.dup(self.entry_socket))
        try:
            end.sendmsg([frame(message)], rights(files))
        except OSError:
            raise OSError(errno.EPIPE, "the gate that checks denied commands has ended") from None
        finally:
            end.close()


def checksum(words: list[bytes]) -> int:
    """A hash that is equal in all processes forked from the same warden."""
    return hash(tuple(words))
