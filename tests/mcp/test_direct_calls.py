"""Calls that are answered without the SDK get the same answers as from the SDK."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.mcp.mcp_desk import Machine, Wire, text, until
from tests.workspace.image_files import png

pytestmark = pytest.mark.timeout(120)

CALLS: list[tuple[str, dict[str, Any] | None]] = [
    ("read_file", {"path": "a.txt"}),
    ("read_file", {"path": "picture.png"}),
    ("read_file", {"path": "missing.txt"}),
    ("read_file", {"path": "../outside"}),
    ("read_file", {"path": 7}),
    ("read_file", {}),
    ("read_file", None),
    ("list_directory", {}),
    ("list_directory", {"depth": 99, "limit": 1}),
    ("search_files", {"pattern": "two"}),
    ("search_files", {"pattern": "(", "kind": "regex"}),
    ("list_processes", {}),
    ("poll_process", {"process_id": "p0123456789"}),
    ("execute_shell", {"command": "echo é; printf '\\001\\033[31m'; exit 3", "isolation": "none"}),
    ("write_file", {"path": ".git/hooks/x", "content": ""}),
    ("nothing of the kind", {"a": [1, 2.5, None, {"b": "\u2028"}]}),
]


@pytest.fixture
def folder(house: Machine) -> Machine:
    (house.project / "a.txt").write_text("one\ntwo é 😀 \u2028 \x01\n", encoding="utf-8")
    (house.project / "picture.png").write_bytes(png(3, 2))
    return house


@pytest.mark.parametrize(("tool", "arguments"), CALLS)
def test_a_direct_call_is_answered_as_the_sdk_answers_it(
    folder: Machine, wire: Wire, tool: str, arguments: dict[str, Any] | None
) -> None:
    params = {"name": tool} | ({} if arguments is None else {"arguments": arguments})
    direct = wire.ask("tools/call", params)
    by_sdk = wire.ask("tools/call", params | {"_meta": {}})
    del direct["id"], by_sdk["id"]
    assert direct == by_sdk


def test_the_id_of_an_answer_is_that_of_its_request(wire: Wire) -> None:
    params = {"name": "list_processes", "arguments": {}}
    for request in (0, -7, "seven", "7", 2**62, 10**30, ""):
        message = {"jsonrpc": "2.0", "id": request, "method": "tools/call", "params": params}
        wire.send(json.dumps(message))
        assert wire.answer(request)["id"] == request


@pytest.mark.parametrize("id_form", [int, str])
def test_a_call_cancelled_by_either_form_of_its_id_gets_no_response(
    wire: Wire, id_form: type
) -> None:
    call = wire.begin("execute_shell", command="sleep 30")
    running = {"status_filter": "live"}
    until(lambda: "running" in text(wire.call("list_processes", **running)))
    wire.report("notifications/cancelled", {"requestId": id_form(call)})
    until(lambda: "running" not in text(wire.call("list_processes", **running)))
    assert not wire.answered(call)


def test_before_the_handshake_is_over_a_call_is_left_to_the_sdk(machine: Machine) -> None:
    wire = machine.serve("--approve", "auto")
    params = {"name": "write_file", "arguments": {"path": "early.txt", "content": "x"}}
    assert "error" in wire.ask("tools/call", params)
    assert not (machine.project / "early.txt").exists()
    wire.greet()
    assert "created" in text(wire.call("write_file", path="early.txt", content="x"))


def test_a_call_under_way_when_the_client_disconnects_is_answered_with_an_error(
    machine: Machine,
) -> None:
    wire = machine.greeted("--approve", "auto")
    call = wire.begin("execute_shell", command="sleep 30")
    until(lambda: "running" in text(wire.call("list_processes", status_filter="live")))
    assert wire.process.stdin
    wire.process.stdin.close()
    assert "error" in wire.answer(call)
