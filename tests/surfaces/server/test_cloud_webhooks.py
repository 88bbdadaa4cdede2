"""Webhooks about cloud agents, at the service and at `cloud listen`: signed, recent, once each."""

from __future__ import annotations

import hmac
import json
import re
import select
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from tests.stand_ins.cursor_cloud import recording
from tests.surfaces.conftest import Bench
from tests.surfaces.server.service_desk import Desk
from tillerman.agents.cursor_cloud.webhook import status_change
from tillerman.paths import find_paths

SECRET = "0123456789abcdef0123456789abcdef"
PATH = "/hooks/cloud/cursor-cloud"
VARIABLE = {"TILLERMAN_CLOUD_WEBHOOK_SECRET": SECRET}


def body(agent: str = "bc_abc123", *, age: float = 0, **fields: Any) -> bytes:
    sent = (datetime.now(UTC) - timedelta(seconds=age)).isoformat()
    recorded = recording("webhook_finished")["request"]["body"]
    return json.dumps({**recorded, "timestamp": sent, "id": agent, **fields}).encode()


def signed(data: bytes, secret: str = SECRET) -> dict[str, str]:
    signature = hmac.new(secret.encode(), data, sha256).hexdigest()
    return {
        "Content-Type": "application/json",
        "User-Agent": "Cursor-Agent-Webhook/1.0",
        "X-Webhook-Event": "statusChange",
        "X-Webhook-ID": "evt_1",
        "X-Webhook-Signature": f"sha256={signature}",
    }


def changed(data: bytes, change: Callable[[str], str]) -> dict[str, str]:
    return {"X-Webhook-Signature": change(signed(data)["X-Webhook-Signature"])}


class Listener:
    """The program that receives, wherever it listens."""

    def __init__(self, bench: Bench, port: int) -> None:
        self.paths = find_paths(bench.environment)
        self.port = port

    def post(self, data: bytes, headers: dict[str, str] | None = None, path: str = PATH) -> int:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.request("POST", path, data, signed(data) if headers is None else headers)
        status = connection.getresponse().status
        connection.close()
        return status

    def woken(self, agent: str) -> bool:
        return self.paths.cloud_wake(agent).exists()


@pytest.fixture(params=["serve", "listen"])
def listener(bench: Bench, request: pytest.FixtureRequest) -> Iterator[Listener]:
    if request.param == "serve":
        desk = Desk(bench).open(**VARIABLE)
        yield Listener(bench, desk.port)
        desk.close()
        return
    home = Path(bench.environment["TILLERMAN_HOME"])
    home.mkdir()
    (home / "config.toml").write_text(f'[agents.cursor-cloud]\nwebhook_secret = "{SECRET}"\n')
    program = bench.start("cloud", "listen", "--port", "0", "--json")
    line = first_line(program)
    found = re.search(rf"http://127\.0\.0\.1:(\d+){PATH}", line)
    assert found, line
    yield Listener(bench, int(found[1]))


def first_line(program: Any) -> str:
    ready, _, _ = select.select([program.stderr], [], [], 20)
    assert ready
    return str(program.stderr.readline().decode())


def test_the_recorded_webhooks_are_verified() -> None:
    for name, valid in (("finished", True), ("error", True), ("bad_signature", False)):
        told = recording(f"webhook_{name}")
        request = told["request"]
        headers = {key.lower(): value for key, value in request["headers"].items()}
        change = status_change(told["secret"], headers, request["raw_body"].encode())
        assert (change is not None) is valid
        if change:
            assert (change.agent, change.status) == ("bc_abc123", request["body"]["status"])


def test_a_signed_webhook_wakes_the_session_of_its_agent(listener: Listener) -> None:
    assert not listener.woken("bc_abc123")
    assert listener.post(body()) == 200
    assert listener.woken("bc_abc123") and not listener.woken("bc_other")


def test_a_replayed_webhook_is_refused_whatever_its_headers(listener: Listener) -> None:
    data = body("bc_once")
    assert listener.post(data) == 200
    listener.paths.cloud_wake("bc_once").unlink()
    assert listener.post(data) == 409
    assert listener.post(data, signed(data) | {"X-Webhook-ID": "evt_2"}) == 409
    assert not listener.woken("bc_once")


@pytest.mark.parametrize(
    ("name", "change", "status"),
    [
        ("another secret", lambda data: (data, signed(data, "x" * 32)), 401),
        ("a changed body", lambda data: (data + b" ", signed(data)), 401),
        ("no signature", lambda data: (data, {}), 401),
        ("an empty signature", lambda data: (data, {"X-Webhook-Signature": ""}), 401),
        ("half", lambda data: (data, changed(data, lambda one: one[:40])), 401),
        ("upper case", lambda data: (data, changed(data, str.upper)), 401),
        ("an old one", lambda _: (old := body(age=4 * 86_400), signed(old)), 400),
        ("one of the future", lambda _: (old := body(age=-3600), signed(old)), 400),
        ("no time", lambda _: (none := body(timestamp=None), signed(none)), 400),
        ("no JSON", lambda _: (b"{", signed(b"{")), 401),
        ("a long body", lambda _: (long := b"x" * 300_000, signed(long)), 413),
    ],
)  # fmt: skip
def test_a_webhook_that_cannot_be_trusted_is_refused(
    listener: Listener, name: str, change: Any, status: int
) -> None:
    data, headers = change(body())
    assert listener.post(data, headers) == status, name
    assert not listener.woken("bc_abc123")


def test_other_paths_and_methods_are_refused(listener: Listener) -> None:
    data = body()
    assert listener.post(data, path="/hooks/cloud/mock") == 404
    assert listener.post(data, path="/hooks/cloud/nobody") == 404
    assert listener.post(data, path="/hooks/cloud/") in (401, 404)
    connection = HTTPConnection("127.0.0.1", listener.port, timeout=10)
    connection.request("GET", PATH)
    assert connection.getresponse().status == 405


def test_the_service_without_a_secret_receives_none(bench: Bench) -> None:
    desk = Desk(bench).open()
    assert Listener(bench, desk.port).post(body()) == 404
    desk.close()


def test_a_browser_cannot_send_one_to_the_service(bench: Bench) -> None:
    desk = Desk(bench).open(**VARIABLE)
    listener, data = Listener(bench, desk.port), body()
    assert listener.post(data, signed(data) | {"Origin": "https://evil.example"}) == 403
    desk.close()


def test_listening_needs_a_secret(bench: Bench) -> None:
    done = bench.run("cloud", "listen", "--port", "0")
    assert (done.returncode, "TILLERMAN_CLOUD_WEBHOOK_SECRET" in done.stderr) == (2, True)
    assert Path(bench.environment["TILLERMAN_HOME"], "state/cloud").exists() is False
