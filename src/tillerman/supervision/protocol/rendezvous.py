"""Reconnects to a running warden: a socket in the warden's folder, and a key file beside it.

The folder is accessible only to the user, and peers must be of the same user. A confined program of
that user may still reach the socket, so each client must first send the key, which such a program
cannot read.
"""

from __future__ import annotations

import os

from tillerman.supervision.linux.process_table import LINUX, read
from tillerman.supervision.protocol.channel import frame, rights

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence
    from typing import Any

SOCKET = "socket"
KEY = "key"


def connect_to_warden(folder: str, *message: Any, files: Sequence[int] = ()) -> socket.socket:
    """Connects, sends the key and the first message. Raises OSError if no warden listens."""
    from socket import AF_UNIX, SOCK_STREAM
    from socket import socket as new_socket

    key = read(f"{folder}/{KEY}")
    where = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    end = new_socket(AF_UNIX, SOCK_STREAM)
    try:
        end.connect(f"/proc/self/fd/{where}/{SOCKET}" if LINUX else f"{folder}/{SOCKET}")
        end.sendall(key)
        end.sendmsg([frame(message)], rights(files))
    except BaseException:
        end.close()
        raise
    finally:
        os.close(where)
    return end
