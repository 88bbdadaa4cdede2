"""Wrong input of every kind, generated from the table of routes: none is a 5xx."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import msgspec
import pytest

from tests.surfaces.server.service_desk import API, Desk
from tillerman.surfaces.server.route import Route
from tillerman.surfaces.server.routes import ROUTES

pytestmark = pytest.mark.timeout(300)

REQUESTS = 2_000
LONG = 6_000
DEEP = 3_000
TEXTS = (
    "", " ", "\0", "a\0b", "/\0", "\n", "\x1b[31mred", "\u202eabc", "\ufeff", "\U0001f600",
    "-x", "--help", "~", "..", "../..", "/", "//", "/proc/self/mem", "/dev/stdin", "a/" * 300,
    "last", "%00", "%", "{}", "A=b", "=b", "A=\0", "A" * LONG, "/" + "a" * LONG,
    "null", "1", "-1", '"', "'", "*", "NEAR(", "<script>", "mock", "mock,mock", "mock,claude", "no",
    "cmd:", "ask", "plan", "claude:", "\r\nSet-Cookie: a=b",
)  # fmt: skip
NUMBERS = (0, 1, -1, 2, 1000, 2**31, 2**53, 2**53 + 1, 2**64, 10**400, 0.5, -0.0, 1e308, True)
PLAIN = (None, [], {}, [None], {"a": {"b": "\0"}}, {"": []}, {"type": "\0"})
DIGITS = "9" * 5_000
# these ask the network, or are tested with agents of their own
LEFT_OUT = ("/agents",)


class Sent(NamedTuple):
    route: Route
    target: str
    data: bytes | None
    kind: str = "application/json"


class Requests:
    """Requests on a route that exists, each wrong in some place, or odd."""

    def __init__(self, seed: int, known: dict[str, list[str]]) -> None:
        self._random = random.Random(seed)
        self._known = known
        self._routes = [one for one in ROUTES if one.path not in LEFT_OUT]

    def __iter__(self) -> Iterator[Sent]:
        while True:
            route = self._random.choice(self._routes)
            path = re.sub(r"\{(\w+)(:\w+)?\}", self._part, route.path)
            query = self._query(route)
            body = None if route.body is None else self._body(route.body)
            yield Sent(route, f"{API}{path}{query}", body)

    def _part(self, found: re.Match[str]) -> str:
        name = found.group(1)
        if name in self._known and self._random.random() < 0.8:
            return self._random.choice(self._known[name])
        if name == "turn":
            return self._random.choice(("0", "1", DIGITS, "00001"))
        return quote(self._random.choice(TEXTS), safe="") or "x"

    def _query(self, route: Route) -> str:
        if route.query is None:
            return ""
        given: dict[str, Any] = {}
        for field in msgspec.structs.fields(route.query):
            if field.required or self._random.random() < 0.4:
                given[field.name] = self._random.choice((*TEXTS, *NUMBERS, DIGITS))
        return f"?{urlencode(given)}"

    def _body(self, kind: type) -> bytes:
        if self._random.random() < 0.1:
            deep = self._random.choice(("[", '{"a":'))
            names = [field.name for field in msgspec.structs.fields(kind)]
            inner = deep * DEEP + "1" + ("]" if deep == "[" else "}") * DEEP
            return f'{{"{self._random.choice(names)}": {inner}}}'.encode()
        given = {
            field.name: self._value(field.name, field.type)
            for field in msgspec.structs.fields(kind)
            if field.required or self._random.random() < 0.25
        }
        data = bytearray(json.dumps(given).encode())
        if self._random.random() < 0.1:
            data[self._random.randrange(len(data))] = self._random.choice((0xAD, 0xFF, 0, 0x22))
        return bytes(data)

    def _value(self, name: str, kind: Any) -> Any:
        """Mostly of the right type, so that it gets past the decoder."""
        if name in self._known and self._random.random() < 0.85:
            return self._random.choice(self._known[name])
        if self._random.random() < 0.1:
            return self._random.choice((*TEXTS, *NUMBERS, *PLAIN))
        return self._of(msgspec.inspect.type_info(kind))

    def _of(self, info: Any) -> Any:
        choose = self._random.choice
        match info:
            case msgspec.inspect.UnionType(types=types):
                return self._of(choose(types))
            case msgspec.inspect.Metadata(type=inner):
                return self._of(inner)
            case msgspec.inspect.LiteralType(values=values):
                return choose(values)
            case msgspec.inspect.VarTupleType(item_type=inner):
                return [self._of(inner) for _ in range(self._random.randrange(3))]
            case msgspec.inspect.DictType(value_type=inner):
                return {choose(TEXTS): self._of(inner) for _ in range(self._random.randrange(3))}
            case msgspec.inspect.StructType(cls=cls):
                return {
                    one.name: self._value(one.name, one.type) for one in msgspec.structs.fields(cls)
                }
            case msgspec.inspect.IntType() | msgspec.inspect.FloatType():
                return choose(NUMBERS)
            case msgspec.inspect.BoolType():
                return choose((True, False))
            case msgspec.inspect.BytesType():
                return choose(("", "AA==", "%", "A" * 4_000))
            case msgspec.inspect.NoneType():
                return None
            case msgspec.inspect.AnyType():
                return choose((*PLAIN, *TEXTS, *NUMBERS))
        return choose(TEXTS)


def test_no_generated_input_is_an_error_of_the_service(desk: Desk) -> None:
    session = desk.start([{"write": "a.txt", "text": "x"}, {"say": "Done."}])
    desk.ended(session)
    known = {
        "session": [session, "last", session[:6]],
        "agent": ["mock"],
        "cwd": [str(desk.bench.project)],
    }
    failed, seen = [], Counter[int]()
    requests = iter(Requests(18, known))
    for _ in range(REQUESTS):
        one = next(requests)
        if one.route.method == "DELETE" and one.route.path == "/sessions/{session}":
            continue
        headers = desk.headers(Content_Type=one.kind)
        reply = desk.send(one.route.method, one.target, headers, one.data)
        seen[reply.status] += 1
        if reply.status >= 500:
            failed.append((one.route.path, one.target[:200], (one.data or b"")[:300], reply))
        elif reply.status >= 400:
            assert set(reply.json["error"]) == {"kind", "message", "hint", "exit_code"}, one
        elif one.route.status == 201 and "/sessions" in one.route.path:
            desk.call("POST", f"/sessions/{reply.json['id']}/close", {})
    print(seen)
    assert not failed, "\n".join(f"{one}" for one in failed[:40])
    assert desk.call("GET", "/health").status == 200
