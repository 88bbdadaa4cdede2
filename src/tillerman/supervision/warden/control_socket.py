"""The warden's control socket: accepts clients, answers requests, selects the next harness.

Any process of the user that sends the key may list, signal and kill programs; one at a time holds
the warden alive as its harness. Only a warden that may linger has this socket.
"""

# pathlib and contextlib would cost every start some milliseconds
# ruff: noqa: SIM105

from __future__ import annotations

import os
import select
import sys
from _operator import _compare_digest  # the C function behind hmac.compare_digest

from tillerman.supervision.linux.process_table import LINUX
from tillerman.supervision.protocol.channel import Channel
from tillerman.supervision.protocol.rendezvous import DOOR, KEY

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Any

    from tillerman.supervision.warden.supervised_program import SupervisedProgram
else:
    import _socket as socket

_KEY_BYTES = 32
_MOST_GUESTS = 16


class ControlClient:
    """A connection that may not have sent the key yet."""

    def __init__(self, end: socket.socket) -> None:
        self.channel = Channel(end)
        self.proved = False
        self._shown = b""

    def receive(self, key: bytes) -> list[tuple[Any, ...]]:
        """Returns messages.

        Raises EOFError on disconnect or a wrong key. No message is read before the key.
        """
        if self.proved:
            return self.channel.receive()
        part = self.channel.socket.recv(_KEY_BYTES - len(self._shown))
        self._shown += part
        if not part or (len(self._shown) == _KEY_BYTES and not _compare_digest(self._shown, key)):
            raise EOFError
        self.proved = len(self._shown) == _KEY_BYTES
        return []

    def say(self, *message: Any) -> None:
        """Sends without blocking: a client that does not read misses the message."""
        try:
            self.channel.send(*message)
        except OSError:
            pass


class ControlSocket:
    """Listens on the socket, registered in the warden's `ready`, and serves its programs `kept`."""

    def __init__(self, folder: str, kept: dict[int, SupervisedProgram], ready: select.poll) -> None:
        self._kept = kept
        self._ready = ready
        self._guests: dict[int, ControlClient] = {}
        self._line: list[tuple[ControlClient, int]] = []  # waiting to hold it, with lifeline
        self._key = os.urandom(_KEY_BYTES)
        number = os.open(
            f"{folder}/{KEY}", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600
        )
        os.write(number, self._key)
        os.close(number)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        os.chdir(folder)  # a socket address has at most 107 bytes; the path may be longer
        try:
            self._socket.bind(DOOR)
        finally:
            os.chdir("/")
        self._socket.listen(_MOST_GUESTS)
        self._socket.setblocking(False)
        ready.register(self._socket.fileno(), select.POLLIN)

    def serve(self, events: set[int]) -> None:
        if self._socket.fileno() in events:
            self._admit()
        for guest in [one for number, one in self._guests.items() if number in events]:
            try:
                for message in guest.receive(self._key):
                    self._attend(guest, message)
            except BlockingIOError:
                continue
            except (EOFError, OSError):
                self._dismiss(guest)
        if surplus := self._too_many():
            self._dismiss(surplus)

    def next_holder(self) -> tuple[Channel, int] | None:
        """Removes and returns the first client that asked to be the harness, with its lifeline."""
        if not self._line:
            return None
        guest, lifeline = self._line.pop(0)
        del self._guests[guest.channel.fileno()]
        return guest.channel, lifeline

    def programs(self) -> list[tuple[Any, ...]]:
        """Returns the programs that have not ended; one that has not started has pid 0."""
        return [
            (kept.number, kept.job.name, kept.job.pid, kept.job.start, kept.job.lasting)
            for kept in self._kept.values()
            if kept.job and not kept.ended
        ]

    def _admit(self) -> None:
        try:
            number, _ = self._socket._accept()  # type: ignore[attr-defined]
        except OSError:
            return
        end = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, number)
        if not _is_ours(end):
            end.close()
            return
        end.setblocking(False)
        self._guests[number] = ControlClient(end)
        self._ready.register(number, select.POLLIN)

    def _attend(self, guest: ControlClient, message: tuple[Any, ...]) -> None:
        match message:
            case ("hold",):
                self._line += [(guest, lifeline) for lifeline in guest.channel.take_files(1)]
            case ("list",):
                guest.say("programs", self.programs())
            case ("signal" | "kill" as word, str(name), *rest):
                jobs = [kept for kept in self._kept.values() if kept.job and kept.job.name == name]
                if not jobs:
                    guest.say("unknown", name)
                for kept in jobs:
                    assert kept.job
                    if word == "kill":
                        kept.job.waiting.append(guest)
                        kept.end()
                    else:
                        kept.tell("signal", *rest)
                        guest.say("signalled", name)

    def _too_many(self) -> ControlClient | None:
        """Returns the client to disconnect when there are too many: the first without a key."""
        if len(self._guests) <= _MOST_GUESTS:
            return None
        return next((one for one in self._guests.values() if not one.proved), None) or next(
            iter(self._guests.values())
        )

    def _dismiss(self, guest: ControlClient) -> None:
        self._ready.unregister(guest.channel.fileno())
        for waiting, lifeline in list(self._line):
            if waiting is guest:
                os.close(lifeline)
                self._line.remove((waiting, lifeline))
        for kept in self._kept.values():
            if kept.job and guest in kept.job.waiting:
                kept.job.waiting.remove(guest)
        del self._guests[guest.channel.fileno()]
        guest.channel.close()


def _is_ours(end: socket.socket) -> bool:
    if not LINUX:
        return True  # the folder's permissions exclude other users
    peer = end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int.from_bytes(peer[4:8], sys.byteorder) == os.getuid()
