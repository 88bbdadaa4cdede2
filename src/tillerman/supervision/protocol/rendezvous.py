"""Where a harness finds its warden again: a socket in the warden's folder, and a key beside it.

The folder is the user's alone and peers must be of the same user. A confined program of that user
may still reach the socket, so whoever comes must first show the key, a file it cannot read.
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

DOOR = "door"
KEY = "key"


def knock(folder: str, *message: Any, files: Sequence[int] = ()) -> socket.socket:
    """Connect, show the key, say the first word; OSError if nobody is there."""
    from socket import AF_UNIX, SOCK_STREAM
    from socket import socket as new_socket

    key = read(f"{folder}/{KEY}")
    where = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    end = new_socket(AF_UNIX, SOCK_STREAM)
    try:
        end.connect(f"/proc/self/fd/{where}/{DOOR}" if LINUX else f"{folder}/{DOOR}")
        end.sendall(key)
        end.sendmsg([frame(message)], rights(files))
    except BaseException:
        end.close()
        raise
    finally:
        os.close(where)
    return end
