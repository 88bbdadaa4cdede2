"""Every request id is answered: with a result, or with a JSON-RPC error."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from tests.mcp.http_desk import HELLO, Door
from tests.mcp.mcp_desk import Wire

pytestmark = pytest.mark.timeout(120)

INVALID = -32600
ODD = (
    "null", "true", "false", "[]", "{}", '[{"id":1}]', "1.5", "-0.5", "1.0", "1e3", "1E-3", "1e400",
    "NaN", "Infinity", "-Infinity",
    "9" * 5000, "-" + "9" * 101, "9." + "9" * 500,
)  # fmt: skip
PROPER = (
    "0", "-1", "1", "9007199254740993", str(2**63), str(-(2**64)), "9" * 100, '""', '"x"', '"1"',
    '"null"', '"\\u00e9\\n"', json.dumps("x" * 10_000),
)  # fmt: skip


def generated(seed: int, count: int) -> list[str]:
    """JSON values of all kinds."""
    pick = random.Random(seed)
    kinds = (
        lambda: str(pick.randint(-(10 ** pick.randint(1, 90)), 10 ** pick.randint(1, 90))),
        lambda: repr(pick.uniform(-1e9, 1e9)),
        lambda: json.dumps("".join(chr(pick.randint(1, 0x2FF)) for _ in range(pick.randint(0, 9)))),
        lambda: json.dumps([pick.random(), None, "x"][: pick.randint(0, 3)]),
        lambda: pick.choice(["null", "true", "false", "{}", '{"id": 7}']),
        lambda: f"{pick.randint(-9, 9)}e{pick.randint(-9, 9)}",
    )
    return [pick.choice(kinds)() for _ in range(count)]


def is_proper(given: str) -> bool:
    """Whether MCP allows the id: strings and integers; this server limits the digits."""
    return given.startswith('"') or (given.lstrip("-").isdigit() and len(given.lstrip("-")) <= 100)


def expected(given: str) -> Any:
    """The id of the answer: that of the request if it is a string or a number, otherwise null."""
    if given.startswith('"'):
        return json.loads(given)
    short = len(given.lstrip("-")) <= 100
    return json.loads(given) if short and given[-1].isdigit() else None


def ping(given: str) -> str:
    return f'{{"jsonrpc":"2.0","id":{given},"method":"ping"}}'


def test_each_kind_is_answered_on_standard_output(wire: Wire) -> None:
    for given in (*ODD, *PROPER, *generated(1, 60)):
        wire.notes.clear()
        wire.send(ping(given))
        wanted = expected(given)
        answer = wire.note(lambda reported: True) if wanted is None else wire.answer(wanted)
        check(given, answer)
    assert "Traceback" not in wire.errors


def test_each_kind_is_answered_over_http(door: Door) -> None:
    status, reported, _ = door.knock("POST", "/mcp", door.headers(), HELLO)
    assert status == 200
    session = reported["mcp-session-id"]
    for headers in (
        door.headers(Mcp_Session_Id=session),
        door.headers(Mcp_Protocol_Version="2026-07-28", Mcp_Method="ping"),
    ):
        for given in (*ODD, *PROPER, *generated(2, 20)):
            status, reported, body = door.knock("POST", "/mcp", headers, ping(given).encode())
            if is_proper(given) and ("Mcp-Session-Id", session) not in headers:
                assert status in (200, 400, 404), (given, body)  # it may have more to complain of
                assert body
                continue
            assert status == (200 if is_proper(given) else 400), (given, body)
            lines = [line for line in body.decode().splitlines() if line.startswith(("data:", "{"))]
            check(given, json.loads(lines[-1].removeprefix("data:")))


def check(given: str, answer: dict[str, Any]) -> None:
    assert answer["id"] == expected(given), given
    if is_proper(given):
        assert answer["result"] == {}, given
    else:
        assert answer["error"]["code"] == INVALID, given
        assert "string, or an integer" in answer["error"]["message"]


def test_a_notification_is_not_answered(wire: Wire) -> None:
    wire.notes.clear()
    wire.send('{"jsonrpc":"2.0","method":"notifications/initialized"}')
    assert wire.ask("ping")["result"] == {}
    assert wire.notes == []
