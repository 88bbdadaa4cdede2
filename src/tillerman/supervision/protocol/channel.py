"""Messages and open files between harness, warden and keepers, over a stream socket.

A frame is its length in four bytes and a marshalled tuple. Both ends run the same interpreter and
the socket pair is private, so marshal is safe here; importing `json` would cost every start 8 ms.
"""

from __future__ import annotations

import marshal
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence
    from typing import Any
else:
    import _socket as socket  # the C module: its Python wrapper costs every start 8 ms

_CHUNK = 65536
# Linux can set the flag on receive; elsewhere it is set on each received file.
_CLOEXEC = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
_MOST_FILES = 16


def frame(message: Any) -> bytes:
    body = marshal.dumps(message)
    return len(body).to_bytes(4, "big") + body


def unframe(buffer: bytearray) -> list[Any]:
    """Removes the complete frames from the front of `buffer` and decodes them."""
    messages = []
    while len(buffer) >= 4:
        end = 4 + int.from_bytes(buffer[:4], "big")
        if len(buffer) < end:
            break
        messages.append(marshal.loads(buffer[4:end]))
        del buffer[:end]
    return messages


def rights(files: Sequence[int]) -> list[tuple[int, int, bytes]]:
    if not files:
        return []
    packed = b"".join(number.to_bytes(4, sys.byteorder) for number in files)
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, packed)]


class Channel:
    """One end of the pair. Received files wait in `files`, in the order they were sent."""

    def __init__(self, end: socket.socket) -> None:
        self.socket = end
        self.files: list[int] = []
        self._buffer = bytearray()

    def fileno(self) -> int:
        return self.socket.fileno()

    def send(self, *message: Any) -> None:
        self.socket.sendall(frame(message))

    def receive(self) -> list[tuple[Any, ...]]:
        """Returns the complete messages after one read; EOFError once the other end is closed."""
        try:
            data, ancillary, _, _ = self.socket.recvmsg(
                _CHUNK, socket.CMSG_SPACE(4 * _MOST_FILES), _CLOEXEC
            )
        except ConnectionError:
            raise EOFError from None
        for _level, _kind, packed in ancillary:
            for at in range(0, len(packed) - 3, 4):
                number = int.from_bytes(packed[at : at + 4], sys.byteorder)
                if not _CLOEXEC:
                    os.set_inheritable(number, False)
                self.files.append(number)
        if not data:
            raise EOFError
        self._buffer += data
        return unframe(self._buffer)

    def pop_files(self, count: int) -> list[int]:
        taken, self.files = self.files[:count], self.files[count:]
        return taken

    def close(self) -> None:
        self.socket.close()
        for number in self.files:
            os.close(number)
        self.files = []
