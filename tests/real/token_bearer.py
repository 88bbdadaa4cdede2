"""A proxy for MCP clients that cannot be given a token: it adds the token and the right port."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def bearing(port: int, token: str) -> Iterator[int]:
    """The port that accepts requests without a token for the server at `port`."""

    class Visit(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            _pass_on(self.request, port, token)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Visit) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.server_address[1]
        server.shutdown()


def _pass_on(client: socket.socket, port: int, token: str) -> None:
    """Forwards one request, then closes the connection: the next one needs the token too."""
    data = b""
    while b"\r\n\r\n" not in data:
        if not (more := client.recv(65536)):
            return
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    asked, *lines = head.split(b"\r\n")
    ours = b":%d" % client.getsockname()[1]
    stored = [line for line in lines if not line.lower().startswith(b"connection:")]
    named = [
        line.replace(ours, b":%d" % port)
        if line.lower().startswith((b"host:", b"origin:"))
        else line
        for line in stored
    ]
    added = [b"Authorization: Bearer " + token.encode(), b"Connection: close"]
    with socket.create_connection(("127.0.0.1", port)) as server:
        server.sendall(b"\r\n".join([asked, *named, *added]) + b"\r\n\r\n" + body)
        back = threading.Thread(target=_pour, args=(server, client), daemon=True)
        back.start()
        _pour(client, server)
        back.join()


def _pour(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
