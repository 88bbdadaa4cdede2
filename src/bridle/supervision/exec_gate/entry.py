"""The program's side of the gate: what its process does right before its first exec."""

from __future__ import annotations

import errno
import os
from binascii import crc32

from bridle.supervision.channel import frame, rights
from bridle.supervision.exec_gate import seccomp

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
else:
    import _socket as socket


class Entry:
    """What a program does right before its first exec, so that the gate judges all others."""

    def __init__(self, entrance: int, number: int, *, no_new_privileges: bool) -> None:
        self.entrance = entrance
        self._number = number
        self._no_new_privileges = no_new_privileges

    def enter(self, pid: int, argv: list[bytes]) -> None:
        """`pid` as the gate sees it. From here on nothing runs without the gate."""
        message = (self._number, pid, len(argv) - 1, checksum(argv), checksum(argv[1:]))
        end = socket.socket(fileno=os.dup(self.entrance))
        listener = seccomp.install(no_new_privileges=self._no_new_privileges)
        try:
            end.sendmsg([frame(message)], rights([listener]))
        except OSError:
            raise OSError(errno.EPIPE, "the gate that judges denied commands has ended") from None
        finally:
            os.close(listener)  # else a call would wait for ever when the gate dies
            end.close()


def checksum(words: list[bytes]) -> int:
    return crc32(b"\0".join(words))
