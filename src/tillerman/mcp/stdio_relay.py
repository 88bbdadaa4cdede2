"""Stdio relay: the MCP server program of an agent, which forwards lines to the harness.

It is standalone and imports only small modules such as `_socket`, to start fast: an agent starts
one per session, while the real server, which takes a second to load, runs once. The harness decides
which process may connect, by the user id of the socket's peer.
"""

# ruff: noqa: T201

import _socket as socket
import os
import select
import sys

CHUNK = 65536
CLOSED = "it ended, or rejects this process"


def main(path: str) -> int:
    harness = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        harness.connect(path)
    except OSError as error:
        return gone(error.strerror or str(error))
    ready = select.poll()
    ready.register(0, select.POLLIN)
    ready.register(harness.fileno(), select.POLLIN)
    asking = True
    while True:
        events = {number for number, _ in ready.poll()}
        try:
            if harness.fileno() in events:
                said = harness.recv(CHUNK)
                if not said:
                    return gone(CLOSED) if asking else 0
                write(1, said)
            if 0 in events:
                asked = os.read(0, CHUNK)
                if asked:
                    harness.sendall(asked)
                else:
                    asking = False
                    ready.unregister(0)
                    harness.shutdown(socket.SHUT_WR)
        except ConnectionError:
            return gone(CLOSED)


def gone(why: str) -> int:
    print(f"tillerman: the session is not available: {why}", file=sys.stderr)
    return 1


def write(number: int, data: bytes) -> None:
    try:
        while data:
            data = data[os.write(number, data) :]
    except BrokenPipeError:
        sys.exit(0)  # the agent has exited: no one to report to


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1]))
    except KeyboardInterrupt:
        sys.exit(0)
