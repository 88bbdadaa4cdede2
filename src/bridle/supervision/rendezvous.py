"""Where a harness finds its warden again: a socket in the warden's folder, and a key beside it.

The folder is the user's alone and peers must be of the same user. A confined program of that user
may still reach the socket, so whoever comes must first show the key, a file it cannot read.
"""

# pathlib and contextlib would cost every start some milliseconds
# ruff: noqa: SIM105

from __future__ import annotations

import os
import sys
from _operator import _compare_digest  # what hmac calls compare_digest

from bridle.supervision.channel import Channel, frame, rights
from bridle.supervision.processes import LINUX, read

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence
    from typing import Any
else:
    import _socket as socket

DOOR = "door"
KEY = "key"
_KEY_BYTES = 32
_MOST_GUESTS = 16


class Guest:
    """A connection that may or may not have shown the key yet."""

    def __init__(self, end: socket.socket) -> None:
        self.channel = Channel(end)
        self.proved = False
        self._shown = b""

    def receive(self, key: bytes) -> list[tuple[Any, ...]]:
        """EOFError when it is gone, or has shown another key; nothing of it is read before."""
        if self.proved:
            return self.channel.receive()
        part = self.channel.socket.recv(_KEY_BYTES - len(self._shown))
        self._shown += part
        if not part or (len(self._shown) == _KEY_BYTES and not _compare_digest(self._shown, key)):
            raise EOFError
        self.proved = len(self._shown) == _KEY_BYTES
        return []

    def say(self, *message: Any) -> None:
        """Never waits: a guest who does not read misses it."""
        try:
            self.channel.send(*message)
        except OSError:
            pass


class Door:
    """The warden's side: listens, and knows who came."""

    def __init__(self, folder: str) -> None:
        self.guests: dict[int, Guest] = {}
        self.key = os.urandom(_KEY_BYTES)
        number = os.open(
            f"{folder}/{KEY}", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600
        )
        os.write(number, self.key)
        os.close(number)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        os.chdir(folder)  # a socket's address has 107 bytes, and the folder's name may be longer
        try:
            self._socket.bind(DOOR)
        finally:
            os.chdir("/")
        self._socket.listen(_MOST_GUESTS)
        self._socket.setblocking(False)

    def fileno(self) -> int:
        return self._socket.fileno()

    def admit(self) -> Guest | None:
        try:
            number, _ = self._socket._accept()  # type: ignore[attr-defined]
        except OSError:
            return None
        end = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, number)
        if not _is_ours(end):
            end.close()
            return None
        end.setblocking(False)
        guest = self.guests[end.fileno()] = Guest(end)
        return guest

    def too_many(self) -> Guest | None:
        """Who is to make room, once all seats are taken: the first that has shown no key."""
        if len(self.guests) <= _MOST_GUESTS:
            return None
        return next((one for one in self.guests.values() if not one.proved), None) or next(
            iter(self.guests.values())
        )

    def drop(self, guest: Guest) -> None:
        del self.guests[guest.channel.fileno()]
        guest.channel.close()


def _is_ours(end: socket.socket) -> bool:
    if not LINUX:
        return True  # the folder lets nobody else in
    peer = end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int.from_bytes(peer[4:8], sys.byteorder) == os.getuid()


def knock(folder: str, *message: Any, files: Sequence[int] = ()) -> socket.socket:
    """The caller's side: connect, show the key, say the first word; OSError if nobody is there."""
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
