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
from tillerman.supervision.protocol.rendezvous import KEY, SOCKET

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from typing import Any

    from tillerman.supervision.warden.supervised_program import SupervisedProgram
else:
    import _socket as socket

_KEY_BYTES = 32
_MOST_CLIENTS = 16


class ControlClient:
    """A connection that may not have sent the key yet."""

    def __init__(self, end: socket.socket) -> None:
        self.channel = Channel(end)
        self.proved = False
        self._received = b""

    def receive(self, key: bytes) -> list[tuple[Any, ...]]:
        """Returns messages.

        Raises EOFError on disconnect or a wrong key. No message is read before the key.
        """
        if self.proved:
            return self.channel.receive()
        part = self.channel.socket.recv(_KEY_BYTES - len(self._received))
        self._received += part
        if not part or (
            len(self._received) == _KEY_BYTES and not _compare_digest(self._received, key)
        ):
            raise EOFError
        self.proved = len(self._received) == _KEY_BYTES
        return []

    def send(self, *message: Any) -> None:
        """Sends without blocking: a client that does not read misses the message."""
        try:
            self.channel.send(*message)
        except OSError:
            pass


class ControlSocket:
    """Listens on the socket, registered in the warden's `ready`, and serves its `programs`."""

    def __init__(
        self, folder: str, programs: dict[int, SupervisedProgram], ready: select.poll
    ) -> None:
        self._programs = programs
        self._ready = ready
        self._clients: dict[int, ControlClient] = {}
        self._waiting: list[tuple[ControlClient, int]] = []  # waiting to hold it, with lifeline
        self._key = os.urandom(_KEY_BYTES)
        number = os.open(
            f"{folder}/{KEY}", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600
        )
        os.write(number, self._key)
        os.close(number)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        os.chdir(folder)  # a socket address has at most 107 bytes; the path may be longer
        try:
            self._socket.bind(SOCKET)
        finally:
            os.chdir("/")
        self._socket.listen(_MOST_CLIENTS)
        self._socket.setblocking(False)
        ready.register(self._socket.fileno(), select.POLLIN)

    def serve(self, events: set[int]) -> None:
        if self._socket.fileno() in events:
            self._accept_client()
        for client in [one for number, one in self._clients.items() if number in events]:
            try:
                for message in client.receive(self._key):
                    self._handle(client, message)
            except BlockingIOError:
                continue
            except (EOFError, OSError):
                self._disconnect(client)
        if surplus := self._too_many():
            self._disconnect(surplus)

    def next_holder(self) -> tuple[Channel, int] | None:
        """Removes and returns the first client that asked to be the harness, with its lifeline."""
        if not self._waiting:
            return None
        client, lifeline = self._waiting.pop(0)
        del self._clients[client.channel.fileno()]
        return client.channel, lifeline

    def programs(self) -> list[tuple[Any, ...]]:
        """Returns the programs that have not ended; one that has not started has pid 0."""
        return [
            (
                program.number,
                program.job.name,
                program.job.pid,
                program.job.start,
                program.job.lasting,
            )
            for program in self._programs.values()
            if program.job and not program.ended
        ]

    def _accept_client(self) -> None:
        try:
            number, _ = self._socket._accept()  # type: ignore[attr-defined]
        except OSError:
            return
        end = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, number)
        if not _is_ours(end):
            end.close()
            return
        end.setblocking(False)
        self._clients[number] = ControlClient(end)
        self._ready.register(number, select.POLLIN)

    def _handle(self, client: ControlClient, message: tuple[Any, ...]) -> None:
        match message:
            case ("hold",):
                self._waiting += [(client, lifeline) for lifeline in client.channel.pop_files(1)]
            case ("list",):
                client.send("programs", self.programs())
            case ("signal" | "kill" as word, str(name), *rest):
                jobs = [
                    program
                    for program in self._programs.values()
                    if program.job and program.job.name == name
                ]
                if not jobs:
                    client.send("unknown", name)
                for program in jobs:
                    assert program.job
                    if word == "kill":
                        program.job.waiting.append(client)
                        program.end()
                    else:
                        program.send("signal", *rest)
                        client.send("signalled", name)

    def _too_many(self) -> ControlClient | None:
        """Returns the client to disconnect when there are too many: the first without a key."""
        if len(self._clients) <= _MOST_CLIENTS:
            return None
        return next((one for one in self._clients.values() if not one.proved), None) or next(
            iter(self._clients.values())
        )

    def _disconnect(self, client: ControlClient) -> None:
        self._ready.unregister(client.channel.fileno())
        for holder, lifeline in list(self._waiting):
            if holder is client:
                os.close(lifeline)
                self._waiting.remove((holder, lifeline))
        for program in self._programs.values():
            if program.job and client in program.job.waiting:
                program.job.waiting.remove(client)
        del self._clients[client.channel.fileno()]
        client.channel.close()


def _is_ours(end: socket.socket) -> bool:
    if not LINUX:
        return True  # the folder's permissions exclude other users
    peer = end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int.from_bytes(peer[4:8], sys.byteorder) == os.getuid()
