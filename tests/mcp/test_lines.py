"""Lines on standard input that are no requests: each is answered, and the server continues."""

from __future__ import annotations

import json
import signal

import pytest

from tests.mcp.mcp_desk import HELLO, MAX_WAIT, Machine, Wire
from tillerman.sessions.remote.private_socket import LONGEST_LINE

pytestmark = pytest.mark.timeout(120)

PARSE, INVALID = -32700, -32600

# What is sent, the id that the answer carries, and its code.
BROKEN = {
    "no JSON": (b"hello", None, PARSE),
    "half of one": (b'{"jsonrpc":"2.0","id":71,"method":"ping"', None, PARSE),
    "no text": (b"\xff\xfe\x00", None, PARSE),
    "no text in a string": (b'{"jsonrpc":"2.0","id":"\xff","method":"ping"}', None, PARSE),
    "deep": (b"[" * 100_000, None, PARSE),
    "a number with no end": (b"9" * 10_000, None, PARSE),
    "deep, its id first": (
        b'{"jsonrpc":"2.0","id":80,"method":"tools/call","params":{"name":"read_file","arguments":'
        b'{"path":%s%s}}}' % (b"[" * 100_000, b"]" * 100_000),
        80,
        PARSE,
    ),
    "deep, its id last": (
        b'{"jsonrpc":"2.0","method":"ping","params":{"x":%s%s},"id":"s81"}'
        % (b'{"a":' * 50_000 + b"1", b"}" * 50_000),
        "s81",
        PARSE,
    ),
    "a number with no end in its arguments": (
        b'{"jsonrpc":"2.0","id":82,"method":"tools/call","params":{"name":"read_file","arguments":'
        b'{"path":"x","offset":%s}}}' % (b"9" * 10_000),
        82,
        PARSE,
    ),
    "two at once": (b'{"jsonrpc":"2.0","id":72,"method":"ping"}{}', None, PARSE),
    "nothing of it": (b"{}", None, INVALID),
    "a list": (b'[{"jsonrpc":"2.0","id":73,"method":"ping"}]', None, INVALID),
    "a word": (b'"ping"', None, INVALID),
    "null": (b"null", None, INVALID),
    "another version": (b'{"jsonrpc":"1.0","id":74,"method":"ping"}', 74, INVALID),
    "no method": (b'{"jsonrpc":"2.0","id":"seventy-five"}', "seventy-five", INVALID),
    "a method that is none": (b'{"jsonrpc":"2.0","id":76,"method":7}', 76, INVALID),
    "half a character": (
        b'{"jsonrpc":"2.0","id":77,"method":"tools/call","params":'
        b'{"name":"read_file","arguments":{"path":"\\ud800"}}}',
        77,
        PARSE,
    ),
    "half a character as its id": (b'{"jsonrpc":"2.0","id":"\\udfff","method":7}', None, PARSE),
    "a long line, its id first": (
        b'{"jsonrpc": "2.0", "id": 78, "method": "ping", "params": {"x": "%s"}}'
        % (b"y" * LONGEST_LINE),
        78,
        PARSE,
    ),
    "a long line, its id last": (
        b'{"method":"ping","params":{"x":"%s"},"jsonrpc":"2.0","id":"s79"}'
        % (b"y" * (3 * LONGEST_LINE)),
        "s79",
        PARSE,
    ),
    "a long line without an id": (b"y" * (2 * LONGEST_LINE), None, PARSE),
    "a long line, its id odd": (b'{"id":007,"x":"%s"}' % (b"y" * LONGEST_LINE), None, PARSE),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_line_is_answered_and_the_next_is_decoded(wire: Wire, kind: str) -> None:
    line, request, code = BROKEN[kind]
    wire.notes.clear()
    wire.send(line)
    answer = wire.note(lambda reported: True) if request is None else wire.answer(request)
    assert answer["error"]["code"] == code
    assert answer["error"]["message"].startswith("the line ")
    assert wire.ask("ping")["result"] == {}
    assert "Traceback" not in wire.errors


def test_arguments_at_any_depth_are_answered(wire: Wire) -> None:
    for depth in (1, 60, 64, 65, 100, 500, 900, 990, 1_000, 1_100, 3_000):
        inner = "[" * depth + "]" * depth
        wire.send(
            f'{{"jsonrpc":"2.0","id":{depth},"method":"tools/call","params":'
            f'{{"name":"read_file","arguments":{{"path":"x","more":{inner}}}}}}}'
        )
        answer = wire.answer(depth)
        assert "bug" not in json.dumps(answer), answer
        assert "error" in answer or answer["result"]["isError"]
    assert wire.call("list_directory")["isError"] is False


def test_blank_lines_are_skipped(wire: Wire) -> None:
    wire.notes.clear()
    wire.send(b"\n\r\n   \n\t")
    assert wire.ask("ping")["result"] == {}
    assert wire.notes == []


def test_a_line_of_the_maximum_length_is_decoded(wire: Wire) -> None:
    parsed = {"jsonrpc": "2.0", "id": "long", "method": "ping", "params": {"x": ""}}
    room = LONGEST_LINE - len(json.dumps(parsed)) - 1
    wire.send(json.dumps(parsed | {"params": {"x": "y" * room}}))
    assert wire.answer("long")["result"] == {}


def test_odd_requests_are_refused_by_their_id(wire: Wire) -> None:
    for method, params in (
        ("nope", {}),
        ("tools/call", {}),
        ("tools/call", {"name": 5}),
        ("tools/call", {"name": "read_file", "arguments": [1]}),
        ("resources/read", {}),
        ("resources/read", {"uri": 7}),
        ("prompts/list", {}),
        ("logging/setLevel", {"level": "debug"}),
    ):
        answer = wire.ask(method, params)
        assert answer["error"]["message"] and answer["error"]["code"] < 0, method
    assert "Traceback" not in wire.errors


# -- how it ends -----------------------------------------------------------------------------------


def test_a_client_may_leave_without_a_request(machine: Machine) -> None:
    wire = machine.serve()
    assert (wire.end(), wire.errors) == (0, "")


def test_a_client_that_stops_reading_is_disconnected(machine: Machine) -> None:
    process = machine.start("mcp", "serve", "--approve", "auto")
    assert process.stdin and process.stdout and process.stderr
    process.stdout.close()
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
    with process.stdin, process.stderr:
        process.stdin.write(json.dumps(hello).encode() + b"\n")
        process.stdin.flush()
        assert (process.wait(MAX_WAIT), process.stderr.read()) == (0, b"")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly(machine: Machine, number: signal.Signals) -> None:
    wire = machine.greeted("--approve", "auto")
    wire.begin("execute_shell", command="sleep 60")
    wire.process.send_signal(number)
    assert (wire.wait(), wire.errors) == (0, "")
