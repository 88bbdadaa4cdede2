"""Connections with no request, or an incomplete one, are closed and block nobody."""

from __future__ import annotations

import contextlib
import resource
import socket
import subprocess
import time
from collections.abc import Iterator

import pytest

from tests.mcp.http_desk import HELLO, SERVE, Door, opened, shut
from tests.mcp.mcp_desk import Machine, until
from tillerman.http_server.connection_limits import BODY_WITHIN, HEAD_WITHIN

pytestmark = pytest.mark.timeout(180)

MANY = 2_000
USUAL_LIMIT = 1_024  # open files of a process, on most machines
# What a connection sends before it falls silent: no token is in any of it.
BEGINNINGS = {
    "nothing": b"",
    "a letter": b"P",
    "a line": b"POST /mcp HTTP/1.1\r\n",
    "half of its headers": b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthor",
    "a body that is not sent": b"POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n{",
}


@pytest.fixture(scope="module")
def small(house: Machine) -> Iterator[Door]:
    """A server with the usual limit on open files."""

    limited = ["sh", "-c", f'ulimit -n {USUAL_LIMIT}; exec "$@"', "sh"]
    door = opened(
        subprocess.Popen(
            [*limited, *house.command(*SERVE)],
            cwd=house.project,
            env=house.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
    )
    yield door
    shut(door)


def connected(door: Door, beginning: bytes) -> socket.socket:
    line = socket.create_connection(("127.0.0.1", door.port), timeout=20)
    with contextlib.suppress(ConnectionError):
        line.sendall(beginning)
    return line


def is_closed(line: socket.socket) -> bool:
    line.setblocking(False)
    try:
        return line.recv(4096, socket.MSG_PEEK) == b"" or b"401" in line.recv(4096)
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def ask(door: Door) -> float:
    began = time.monotonic()
    assert door.knock("POST", "/mcp", door.headers(), HELLO)[0] == 200
    return time.monotonic() - began


def test_an_authorised_client_does_not_wait_for_two_thousand_that_send_nothing(
    small: Door,
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < MANY + 500:
        pytest.skip(f"this process may open {hard} files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    kinds = [*BEGINNINGS.values()]
    waits = []
    with contextlib.ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        for number in range(MANY):
            stack.enter_context(connected(small, kinds[number % len(kinds)]))
            if number % 100 == 99:
                waits.append(ask(small))
        waits += [ask(small) for _ in range(5)]
    waits.sort()
    assert waits[len(waits) // 2] < 1.0, waits
    assert waits[-1] < 5.0, waits  # a busy machine may hold up one of them


def test_half_a_request_is_closed_within_seconds_even_if_it_continues_byte_by_byte(
    small: Door,
) -> None:
    with contextlib.ExitStack() as stack:
        lines = [stack.enter_context(connected(small, one)) for one in BEGINNINGS.values()]
        slow = stack.enter_context(connected(small, b"POST /mcp HTTP/1.1\r\nX-Slow: "))

        def all_closed() -> bool:
            with contextlib.suppress(ConnectionError):
                slow.send(b"x")
            return all(is_closed(line) for line in (slow, *lines))

        until(all_closed, HEAD_WITHIN + 10)


def test_a_connection_stays_open_between_two_requests(small: Door) -> None:
    head = [f"{name}: {value}" for name, value in small.headers()]
    lines = ["POST /mcp HTTP/1.1", *head, f"Content-Length: {len(HELLO)}", "", ""]
    request = "\r\n".join(lines).encode() + HELLO
    with connected(small, request) as line:
        assert line.recv(65536).startswith(b"HTTP/1.1 200")
        line.sendall(request[:50])
        time.sleep(0.3)
        line.sendall(request[50:])
        until(lambda: b"HTTP/1.1 200" in line.recv(65536))


@pytest.mark.torture
def test_a_client_with_the_token_that_sends_half_a_body_is_closed_too(small: Door) -> None:
    head = [f"{name}: {value}" for name, value in small.headers()]
    request = "\r\n".join(["POST /mcp HTTP/1.1", *head, "Content-Length: 9999", "", "{"])
    with connected(small, request.encode()) as line:
        until(lambda: is_closed(line), BODY_WITHIN + 10)
