"""Idle, half-sent and unread connections keep nobody out and cost little memory."""

from __future__ import annotations

import contextlib
import resource
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.surfaces.conftest import Bench, wait_until
from tests.surfaces.server.service_desk import API, Desk, messages
from tillerman.http_server import connection_limits
from tillerman.surfaces.server import streams

pytestmark = pytest.mark.timeout(180)

MANY = 2_000
USUAL_LIMIT = 1_024  # open files of a process, on most machines
BEGINNINGS = {
    "nothing": b"",
    "a letter": b"G",
    "a line": b"GET /api/v1/health HTTP/1.1\r\n",
    "half of its headers": b"GET /api/v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthor",
    "a body that is not sent": b"POST /api/v1/sessions HTTP/1.1\r\nHost: x\r\n"
    b"Content-Length: 99\r\n\r\n{",
    "half an upgrade": b"GET /api/v1/sessions/x/events HTTP/1.1\r\nUpgrade: websocket\r\n",
}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """A service with as few open files as is usual."""
    bench = Bench(tmp_path_factory.mktemp("small"))
    desk = Desk(bench)
    limited = ["sh", "-c", f'ulimit -n {USUAL_LIMIT}; exec "$@"', "sh"]
    desk.process = subprocess.Popen(
        [*limited, *bench.command("serve", *desk.options)],
        cwd=bench.project,
        env=bench.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    desk.reached()
    yield desk
    desk.close()
    bench.close()


def connected(desk: Desk, beginning: bytes) -> socket.socket:
    line = socket.create_connection(("127.0.0.1", desk.port), timeout=20)
    with contextlib.suppress(ConnectionError):
        line.sendall(beginning)
    return line


def ask(desk: Desk) -> float:
    began = time.monotonic()
    assert desk.call("GET", "/health").status == 200
    return time.monotonic() - began


def test_an_authorised_client_does_not_wait_for_two_thousand_that_send_nothing(
    small: Desk,
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
    print(f"waits: median {waits[len(waits) // 2]:.3f} s, longest {waits[-1]:.3f} s")
    assert waits[len(waits) // 2] < 1.0, waits
    assert waits[-1] < 5.0, waits  # a busy machine may hold up one of them


def test_half_a_request_is_closed_within_seconds(small: Desk) -> None:
    def is_closed(line: socket.socket) -> bool:
        line.setblocking(False)
        try:
            return line.recv(4096) == b""
        except BlockingIOError:
            return False
        except ConnectionError:
            return True

    with contextlib.ExitStack() as stack:
        lines = [stack.enter_context(connected(small, one)) for one in BEGINNINGS.values()]
        deadline = time.monotonic() + connection_limits.HEAD_WITHIN + 10
        while left := [line for line in lines if not is_closed(line)]:
            assert time.monotonic() < deadline, f"{len(left)} are open"
            time.sleep(0.1)


def test_silent_streams_outlive_the_time_limits_of_a_request(small: Desk) -> None:
    session = small.start([{"say": "x"}], linger=3600)
    last = small.ended(session)[-1]["seq"]
    path = f"/sessions/{session}/events?since={last}"
    with small.socket(path) as line, small.stream(path) as events:
        time.sleep(max(connection_limits.HEAD_WITHIN, connection_limits.BODY_WITHIN) + 1)
        small.prompt(session, [{"say": "later"}], linger=3600)
        assert events.until("turn_ended")
        assert next(messages(line))["seq"] == last + 1


def test_a_body_that_is_too_large_is_refused(small: Desk) -> None:
    for length in ("1e9", str(2 * 2**20), str(2**40)):
        headers = small.headers(Content_Type="application/json")
        headers["Content-Length"] = length
        reply = small.send("POST", f"{API}/tokens", headers)
        assert reply.status in (400, 413), reply


def test_streams_are_bounded(small: Desk) -> None:
    session = small.start([{"say": "x"}])
    small.ended(session)
    with contextlib.ExitStack() as stack:
        path = f"/sessions/{session}/events?since=100000"
        for _ in range(streams.MOST_STREAMS):
            stack.enter_context(small.stream(path))
        refused = small.call("GET", path)
        assert (refused.status, refused.kind) == (429, "too_many_streams")
        assert ask(small) < 5.0
    wait_until(lambda: small.get("/health")["streams"] == 0)


def resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


def test_a_client_that_stops_reading_delays_nobody_and_costs_no_memory(desk: Desk) -> None:
    session = desk.start([{"flood": 2, "of": "lines"}], linger=3600)
    with contextlib.ExitStack() as stack:
        # these never read a byte of the stream
        head = "\r\n".join(f"{name}: {value}" for name, value in desk.headers().items())
        request = f"GET {API}/sessions/{session}/events HTTP/1.1\r\n{head}\r\n\r\n".encode()
        for _ in range(20):
            stack.enter_context(connected(desk, request))
        seen = desk.ended(session)
        assert [one["seq"] for one in seen] == list(range(1, len(seen) + 1))
        before = resident(desk.record["pid"])
        desk.prompt(session, [{"flood": 8, "of": "lines"}])
        again = desk.ended(session, turns=2)
        assert [one["seq"] for one in again] == list(range(1, len(again) + 1))
        grown = resident(desk.record["pid"]) - before
        print(f"{len(again)} entries, memory grew by {grown >> 20} MB")
        assert grown < 64 * 2**20


@pytest.mark.torture
def test_a_client_that_reads_nothing_for_a_minute_is_disconnected(desk: Desk) -> None:
    session = desk.start([{"flood": 8, "of": "lines"}], linger=3600)
    desk.ended(session)
    head = "\r\n".join(f"{name}: {value}" for name, value in desk.headers().items())
    request = f"GET {API}/sessions/{session}/events HTTP/1.1\r\n{head}\r\n\r\n".encode()
    with connected(desk, request):
        wait_until(lambda: desk.get("/health")["streams"] == 1)
        deadline = time.monotonic() + connection_limits.STALLED_FOR + 20
        while desk.get("/health")["streams"]:
            assert time.monotonic() < deadline
            time.sleep(1)
