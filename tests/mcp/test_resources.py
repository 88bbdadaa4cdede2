"""Resources: what can be read besides tools."""

from __future__ import annotations

from typing import Any

import pytest

from tests.mcp.mcp_desk import Machine, Wire, started, until

pytestmark = pytest.mark.timeout(120)


def read(wire: Wire, uri: str) -> dict[str, Any]:
    return wire.ask("resources/read", {"uri": uri})


def test_the_workspace_and_the_output_of_processes_are_listed_and_read(
    house: Machine, wire: Wire
) -> None:
    (house.project / "lib").mkdir()
    (house.project / "lib" / "a.py").write_text("")
    process = started(wire, "echo out; echo err >&2; sleep 60")
    listed = wire.ask("resources/list")["result"]["resources"]
    outputs = [f"tillerman://processes/{process}/{stream}" for stream in ("stdout", "stderr")]
    assert [one["uri"] for one in listed] == ["tillerman://workspace", *outputs]
    for uri, expected in zip(outputs, ("out\n", "err\n"), strict=True):
        until(lambda uri=uri: read(wire, uri)["result"]["contents"][0]["text"])
        [found] = read(wire, uri)["result"]["contents"]
        assert found == {"uri": uri, "mimeType": "text/plain", "text": expected}
    [whole] = read(wire, "tillerman://workspace")["result"]["contents"]
    for words in (str(house.project), "lib/a.py", process, "isolation basic"):
        assert words in whole["text"]
    wire.call("kill_process", process_id=process)
    [whole] = read(wire, "tillerman://workspace")["result"]["contents"]
    assert "no processes are running" in whole["text"]


def test_templates_document_how_output_is_named(wire: Wire) -> None:
    [template] = wire.ask("resources/templates/list")["result"]["resourceTemplates"]
    assert template["uriTemplate"] == "tillerman://processes/{process_id}/{stream}"


@pytest.mark.parametrize(
    "uri",
    [
        "tillerman://nothing",
        "tillerman://workspace/",
        "tillerman://processes/p0123456789/stdout",
        "tillerman://processes/p0123456789/stdin",
        "tillerman://processes/../../store/stdout",
        "tillerman://processes/%2e%2e/stdout",
        "tillerman://processes/\0/stdout",
        "file:///etc/passwd",
        "http://127.0.0.1/",
        "no uri",
        "",
        "tillerman://" + "x" * 100_000,
    ],
)
def test_a_missing_resource_is_refused_with_a_message(wire: Wire, uri: str) -> None:
    answer = read(wire, uri)
    assert answer["error"]["code"] == -32602
    message = answer["error"]["message"]
    assert "unknown resource" in message or "not found or access denied" in message
    assert len(message) < 5_000
    assert "Traceback" not in wire.errors
