"""Reads the process and user id of the peer of a Unix socket from the kernel."""

from __future__ import annotations

import os
import socket
import struct
import sys
from typing import NamedTuple

_SOL_LOCAL, _LOCAL_PEERCRED, _LOCAL_PEERPID = 0, 1, 2  # from macOS's sys/un.h


class PeerCredentials(NamedTuple):
    pid: int
    uid: int

    @property
    def is_us(self) -> bool:
        return self.uid == os.geteuid()


def peer_of(connection: socket.socket) -> PeerCredentials:
    """Raises OSError if the kernel does not report the peer."""
    if sys.platform == "darwin":
        _, uid = struct.unpack("=II", connection.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, 8))
        pid = connection.getsockopt(_SOL_LOCAL, _LOCAL_PEERPID)
        return PeerCredentials(pid, uid)
    if not hasattr(socket, "SO_PEERCRED"):
        raise OSError("this system does not report the peer of a socket")
    credentials = connection.getsockopt(
        socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")
    )
    pid, uid, _ = struct.unpack("3i", credentials)
    return PeerCredentials(pid, uid)
