"""A running service, and clients of it: HTTP by hand, streams, WebSockets."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from websockets.sync.client import ClientConnection, connect

from tests.stand_ins.warm_python import Forked, start_tillerman
from tests.surfaces.conftest import Bench, wait_until

LIBRARIES = ("starlette.routing", "uvicorn", "websockets.server", "h11")
API = "/api/v1"
MAX_WAIT = 20.0


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    data: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.data)

    @property
    def kind(self) -> str:
        """Of the error."""
        return str(self.json["error"]["kind"])


class Desk:
    """A service in a home of its own, with clients that have its token."""

    def __init__(self, bench: Bench, *options: str) -> None:
        self.bench = bench
        self.state = bench.home.parent / "tillerman/state"
        self.folder = self.state / "server"
        self.options = options or ("--port", "0")
        self.process: Any = None

    def open(self, **environment: str) -> Desk:
        self.process = start_tillerman(
            ("serve", *self.options),
            cwd=self.bench.project,
            env=self.bench.environment | environment,
            stdin=False,
            libraries=LIBRARIES,
        )
        return self.reached()

    def reached(self) -> Desk:
        """Once the process that was started answers."""
        wait_until(self._is_up)
        self.record = json.loads((self.folder / "service.json").read_bytes())
        self.token = (self.folder / "token").read_text().strip()
        self.port = urlsplit(self.record["url"]).port or 0
        return self

    def close(self) -> None:
        if self.process and self.process.poll() is None:
            self.process.terminate()
            code = self.process.wait(MAX_WAIT)
            errors = self.process.stderr.read().decode()
            assert code == 0, errors
            assert "Traceback" not in errors, errors
        if self.process:
            for stream in (self.process.stdout, self.process.stderr):
                stream.close()
        self.process = None

    def kill(self) -> None:
        assert isinstance(self.process, Forked) or self.process.pid
        os.kill(self.record["pid"], signal.SIGKILL)
        self.process.wait(MAX_WAIT)
        for stream in (self.process.stdout, self.process.stderr):
            stream.close()
        self.process = None

    def _is_up(self) -> bool:
        assert self.process.poll() is None, self.process.stderr.read().decode()
        try:
            found = json.loads((self.folder / "service.json").read_bytes())
        except (FileNotFoundError, ValueError):
            return False
        return _answers(found["socket"])

    # -- requests --------------------------------------------------------------------------------

    def headers(self, **changed: str | None) -> dict[str, str]:
        right: dict[str, str | None] = {
            "Host": f"127.0.0.1:{self.port}",
            "Authorization": f"Bearer {self.token}",
        }
        right |= {name.replace("_", "-"): value for name, value in changed.items()}
        return {name: value for name, value in right.items() if value is not None}

    def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        headers: Mapping[str, str] | None = None,
        data: bytes | None = None,
    ) -> Reply:
        given = dict(self.headers() if headers is None else headers)
        if body is not None:
            data = json.dumps(body).encode()
            given["Content-Type"] = "application/json"
        return self.send(method, API + path, given, data)

    def send(
        self, method: str, target: str, headers: Mapping[str, str], data: bytes | None = None
    ) -> Reply:
        """A request with these headers and no others."""
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=MAX_WAIT)
        try:
            line.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
            for name, value in headers.items():
                line.putheader(name, value)
            if data is not None:
                line.putheader("Content-Length", str(len(data)))
            line.endheaders(data)
            answer = line.getresponse()
            return Reply(answer.status, dict(answer.getheaders()), answer.read())
        finally:
            line.close()

    def get(self, path: str) -> Any:
        reply = self.call("GET", path)
        assert reply.status == 200, reply
        return reply.json

    def post(self, path: str, body: object = None) -> Any:
        reply = self.call("POST", path, {} if body is None else body)
        assert reply.status < 300, reply
        return reply.json if reply.data else None

    def start(self, steps: Sequence[Mapping[str, Any]], **options: Any) -> str:
        """Starts a session of the mock with this script; returns its id."""
        body = {"agent": "mock", "cwd": str(self.bench.project), "prompt": json.dumps(steps)}
        return str(self.post("/sessions", {"approve": "auto", **body, **options})["id"])

    def prompt(self, session: str, steps: Sequence[Mapping[str, Any]], **options: Any) -> int:
        sent = self.post(f"/sessions/{session}/turns", {"text": json.dumps(steps), **options})
        assert sent["session"] == session
        return int(sent["since"])

    # -- streams ---------------------------------------------------------------------------------

    @contextmanager
    def stream(self, path: str, **headers: str) -> Iterator[EventStream]:
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=MAX_WAIT)
        try:
            line.request("GET", API + path, headers=self.headers() | headers)
            answer = line.getresponse()
            assert answer.status == 200, answer.read()
            assert answer.headers["content-type"] == "text/event-stream"
            yield EventStream(answer)
        finally:
            if line.sock:
                line.sock.close()
            line.close()

    @contextmanager
    def socket(
        self, path: str, *, token: bool = True, **headers: str
    ) -> Iterator[ClientConnection]:
        own = {"Authorization": f"Bearer {self.token}"} if token else {}
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        with connect(
            f"ws://127.0.0.1:{self.port}{API}{path}",
            additional_headers=own | named,
            compression=None,
            proxy=None,
            open_timeout=MAX_WAIT,
        ) as made:
            yield made

    def ended(self, session: str, turns: int = 1) -> list[dict[str, Any]]:
        """All entries, once so many turns have ended."""
        with self.stream(f"/sessions/{session}/events") as events:
            return events.until_turns_ended(turns)


class EventStream:
    def __init__(self, answer: http.client.HTTPResponse) -> None:
        self._answer = answer
        self._last: dict[str, Any] | None = None

    def entry(self) -> dict[str, Any]:
        """The next entry; heartbeats are skipped."""
        lines: list[bytes] = []
        deadline = time.monotonic() + MAX_WAIT
        while True:
            line = self._answer.readline()
            assert time.monotonic() < deadline, f"nothing follows {self._last}"
            assert line, "the stream ended"
            if line == b"\n":
                if entry := _event(lines):
                    self._last = entry
                    return entry
                lines = []
            else:
                lines.append(line)

    def until(self, kind: str) -> list[dict[str, Any]]:
        found = [self.entry()]
        while found[-1]["event"]["type"] != kind:
            found.append(self.entry())
        return found

    def until_turns_ended(self, turns: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        while turns:
            found.append(self.entry())
            turns -= found[-1]["event"]["type"] == "turn_ended"
        return found


def messages(line: ClientConnection) -> Iterator[dict[str, Any]]:
    """The entries of a WebSocket: a message holds one or more, a line each."""
    while True:
        for entry in str(line.recv(MAX_WAIT)).split("\n"):
            yield json.loads(entry)


def _event(lines: list[bytes]) -> dict[str, Any] | None:
    fields = dict(line.rstrip(b"\n").split(b": ", 1) for line in lines if line[:1] != b":")
    if b"data" not in fields:
        return None
    entry: dict[str, Any] = json.loads(fields[b"data"])
    if b"id" in fields:
        assert int(fields[b"id"]) == entry["seq"]
    return entry


def _answers(path: str) -> bool:
    line = socket.socket(socket.AF_UNIX)
    try:
        line.connect(path)
    except OSError:
        return False
    finally:
        line.close()
    return True


def lines_of(bench: Bench, session: str) -> list[dict[str, Any]]:
    """What `sessions show --json` prints."""
    done = bench.run("sessions", "show", session, "--json")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]
