"""Ten thousand attempts to use the service without the right to: none is accepted."""

from __future__ import annotations

import asyncio
import http.client
import random
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import NamedTuple

import msgspec
import pytest

from tests.surfaces.server.service_desk import API, Desk
from tillerman.core.timestamps import rfc3339
from tillerman.surfaces.server.guard import CSRF_HEADER as CSRF
from tillerman.surfaces.server.guard import SAFE
from tillerman.surfaces.server.routes import ROUTES, STREAMS
from tillerman.surfaces.server.tokens import SCOPES, Links, StoredToken, TokenStore

pytestmark = pytest.mark.timeout(300)

ATTEMPTS = 10_000
AT_ONCE = 100
REFUSED = {"401", "403", "421", "429", "400"}
UPGRADE = [
    ("Connection", "Upgrade"),
    ("Upgrade", "websocket"),
    ("Sec-WebSocket-Version", "13"),
    ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
]
FORM = "application/x-www-form-urlencoded"


class Target(NamedTuple):
    method: str
    path: str
    scope: str
    socket: bool = False


class Attempt(NamedTuple):
    what: str
    target: Target
    headers: list[tuple[str, str]]


def targets() -> list[Target]:
    found = [Target(one.method, _filled(one.path), one.scope) for one in ROUTES]
    for one in STREAMS:
        found.append(Target("GET", _filled(one.path), one.scope))
        found.append(Target("GET", _filled(one.path), one.scope, socket=True))
    return [*found, Target("GET", "/openapi.json", "read")]


def _filled(path: str) -> str:
    return re.sub(r"\{\w+:number\}", "1", re.sub(r"\{\w+(:path)?\}", "last", path))


class Attacks:
    """Generates requests that are wrong in at least one way."""

    def __init__(self, desk: Desk, seed: int) -> None:
        self._desk = desk
        self._random = random.Random(seed)
        tokens = TokenStore(desk.folder)
        self._scoped = {scope: tokens.create(scope)[1] for scope in SCOPES}
        revoked, self._revoked = tokens.create("drive")
        tokens.revoke(revoked.id)
        self._expired = _expired(tokens)
        links = Links(tokens)
        self._cookie = links.redeem(links.create("drive")) or ""
        self._csrf = tokens.csrf(self._cookie.encode())
        self._targets = targets()

    def __iter__(self) -> Iterator[Attempt]:
        ways = [self._credential, self._scope, self._host, self._origin, self._browser]
        while True:
            target = self._random.choice(self._targets)
            if made := self._random.choice(ways)(target):
                what, headers = made
                if target.socket:
                    headers = [*headers, *UPGRADE]
                yield Attempt(what, target, headers)

    @property
    def _right_host(self) -> tuple[str, str]:
        return "Host", f"127.0.0.1:{self._desk.port}"

    @property
    def _own_origin(self) -> tuple[str, str]:
        return "Origin", f"http://127.0.0.1:{self._desk.port}"

    @property
    def _right_token(self) -> tuple[str, str]:
        return "Authorization", f"Bearer {self._desk.token}"

    def _credential(self, target: Target) -> tuple[str, list[tuple[str, str]]]:
        token = self._desk.token
        what, headers = self._random.choice(
            [
                ("no token", []),
                ("empty token", [("Authorization", "Bearer ")]),
                ("wrong token", [("Authorization", f"Bearer {self._random.randbytes(32).hex()}")]),
                ("half a token", [("Authorization", f"Bearer {token[:-1]}")]),
                ("longer token", [("Authorization", f"Bearer {token}0")]),
                ("revoked token", [("Authorization", f"Bearer {self._revoked}")]),
                ("expired token", [("Authorization", f"Bearer {self._expired}")]),
                ("token as password", [("Authorization", f"Basic {token}")]),
                ("bare token", [("Authorization", token)]),
                ("two tokens", [self._right_token, self._right_token]),
                ("token as cookie", [("Cookie", f"tillerman={token}")]),
                ("cookie as token", [("Authorization", f"Bearer {self._cookie}")]),
                ("wrong cookie", [("Cookie", f"tillerman={self._random.randbytes(32).hex()}")]),
                ("two cookies", [("Cookie", f"tillerman={self._cookie}"), ("Cookie", "a=b")]),
                ("another cookie", [("Cookie", f"session={self._cookie}")]),
            ]
        )
        return what, [self._right_host, *headers]

    def _scope(self, target: Target) -> tuple[str, list[tuple[str, str]]] | None:
        smaller = SCOPES[: SCOPES.index(target.scope)]  # type: ignore[arg-type]
        if not smaller:
            return None
        scope = self._random.choice(smaller)
        token = self._scoped[scope]
        claimed = self._random.choice([[], [("X-Scope", "drive")], [("X-Tillerman", "main")]])
        headers = [self._right_host, ("Authorization", f"Bearer {token}"), *claimed]
        return f"scope {scope}", headers

    def _host(self, target: Target) -> tuple[str, list[tuple[str, str]]]:
        port = self._desk.port
        host = self._random.choice(
            [
                "evil.example",
                f"evil.example:{port}",
                "127.0.0.1",
                "localhost",
                f"127.0.0.1.:{port}",
                f"localhost.:{port}",
                f"localhost.evil.example:{port}",
                f"127.0.0.1:{port}@evil.example",
                f"evil.example@127.0.0.1:{port}",
                f"127.0.0.1:{port + 1}",
                f"127.1:{port}",
                f"0x7f.1:{port}",
                f"0.0.0.0:{port}",
                f"[::ffff:127.0.0.1]:{port}",
                f"::1:{port}",
                f"LOCALHOST:{port}",
                f"127.0.0.1:0{port}",
                f"127.0.0.1:{port} ",
                f"a 127.0.0.1:{port}",
                f"127.0.0.1:{port},evil.example",
                "",
            ]
        ).strip(" ")
        headers = [] if self._random.random() < 0.05 else [("Host", host)]
        if headers and self._random.random() < 0.05:
            headers.append(self._right_host)
        if headers == [self._right_host]:
            headers = [("Host", "evil.example")]
        return "wrong host", [*headers, self._right_token]

    def _origin(self, target: Target) -> tuple[str, list[tuple[str, str]]]:
        port = self._desk.port
        origin = self._random.choice(
            [
                "https://evil.example",
                "null",
                f"https://127.0.0.1:{port}",
                "http://127.0.0.1",
                f"http://127.0.0.1:{port + 1}",
                f"http://127.0.0.1:{port}@evil.example",
                f"http://localhost.evil.example:{port}",
                f"http://127.0.0.1:{port}.evil.example",
                f"http://127.0.0.1:{port}/",
                f"HTTP://127.0.0.1:{port}",
                f"http://evil.example:{port}",
                "file://",
                "",
            ]
        )
        wrong = self._random.choice(
            [
                [("Origin", origin)],
                [self._own_origin, ("Origin", origin)],
                [("Sec-Fetch-Site", "cross-site")],
                [("Sec-Fetch-Site", "same-site")],
                [self._own_origin, ("Sec-Fetch-Site", "cross-site")],
            ]
        )
        who = self._random.choice([self._right_token, ("Cookie", f"tillerman={self._cookie}")])
        return "foreign origin", [self._right_host, who, *wrong]

    def _browser(self, target: Target) -> tuple[str, list[tuple[str, str]]] | None:
        """A browser that is signed in: a page of another origin makes it send a request."""
        cookie = ("Cookie", f"tillerman={self._cookie}")
        if target.socket:
            return "socket without origin", [self._right_host, cookie]
        if target.method in SAFE:
            return None
        csrf = [(CSRF, self._csrf)]
        wrong = self._random.choice(
            [
                [*csrf],  # no origin
                [self._own_origin],
                [self._own_origin, (CSRF, "0" * 64)],
                [self._own_origin, *csrf, *csrf],
                [("Content-Type", FORM)],
                [("Origin", "null"), ("Content-Type", FORM), *csrf],
                [("Content-Type", "text/plain")],
            ]
        )
        return "cross-site form", [self._right_host, cookie, *wrong]


def _expired(tokens: TokenStore) -> str:
    """A token whose time has passed."""
    stored, secret = tokens.create("drive", days=1)
    past = rfc3339(datetime.now(UTC) - timedelta(seconds=1))
    file = tokens.main_file.with_name("tokens.json")
    found = msgspec.json.decode(file.read_bytes(), type=list[StoredToken])
    changed = [
        msgspec.structs.replace(one, expires_at=past) if one.id == stored.id else one
        for one in found
    ]
    file.write_bytes(msgspec.json.encode(changed))
    return secret


async def status_of(port: int, attempt: Attempt) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        method, path = attempt.target.method, API + attempt.target.path
        body = b"" if method in SAFE else b"{}"
        lines = [f"{method} {path} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in attempt.headers]
        lines += [f"Content-Length: {len(body)}"] if body else []
        writer.write("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
        line = await asyncio.wait_for(reader.readline(), 30)
        return line.split(b" ")[1].decode() if line else "closed"
    except ConnectionError:
        return "closed"
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def outcomes(port: int, attempts: list[Attempt]) -> list[tuple[Attempt, str]]:
    room = asyncio.Semaphore(AT_ONCE)

    async def one(attempt: Attempt) -> tuple[Attempt, str]:
        async with room:
            return attempt, await status_of(port, attempt)

    return await asyncio.gather(*map(one, attempts))


def test_no_attempt_without_the_right_is_accepted(desk: Desk) -> None:
    session = desk.start([{"say": "mine"}])
    entries = desk.ended(session)
    attempts = list(islice(Attacks(desk, seed=18), ATTEMPTS))
    assert {one.target for one in attempts} == set(targets())
    found = asyncio.run(outcomes(desk.port, attempts))
    accepted = [(one, status) for one, status in found if status not in REFUSED]
    assert accepted == []
    print(Counter((one.what, status) for one, status in found))
    assert [one["id"] for one in desk.get("/sessions")] == [session]
    assert desk.get(f"/sessions/{session}/entries")[: len(entries)] == entries


def test_the_same_requests_with_the_right_token_are_accepted(desk: Desk) -> None:
    attempts = []
    for target in targets():
        headers = [("Host", f"localhost:{desk.port}"), ("Authorization", f"Bearer {desk.token}")]
        attempts.append(Attempt("right", target, headers + (UPGRADE if target.socket else [])))
    found = asyncio.run(outcomes(desk.port, attempts))
    statuses = Counter(status for _, status in found)
    assert not {"401", "403", "421", "429"} & set(statuses), statuses


def test_a_refused_request_is_answered_before_its_body_is_sent(desk: Desk) -> None:
    line = http.client.HTTPConnection("127.0.0.1", desk.port, timeout=10)
    line.putrequest("POST", f"{API}/sessions")
    line.putheader("Content-Length", str(10**12))
    line.endheaders()
    assert line.getresponse().status == 401
    line.close()


def test_wrong_tokens_are_slowed_and_right_ones_are_not(desk: Desk) -> None:
    wrong = Attempt(
        "wrong",
        Target("GET", "/health", "read"),
        [("Host", f"127.0.0.1:{desk.port}"), ("Authorization", "Bearer " + "0" * 64)],
    )

    async def measured() -> tuple[float, list[str]]:
        loop = asyncio.get_running_loop()
        trying = asyncio.gather(*(status_of(desk.port, wrong) for _ in range(60)))
        await asyncio.sleep(0.5)
        began = loop.time()
        right = [("Host", f"127.0.0.1:{desk.port}"), ("Authorization", f"Bearer {desk.token}")]
        assert await status_of(desk.port, wrong._replace(headers=right)) == "200"
        return loop.time() - began, list(await trying)

    waited, statuses = asyncio.run(measured())
    assert waited < 1.0
    assert set(statuses) == {"401", "429"}
