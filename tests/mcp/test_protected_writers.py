"""Random writers as commands of an MCP client: every change is undone and reported."""

from __future__ import annotations

import random

import pytest

from tests.mcp.mcp_desk import Machine, text
from tests.sessions.protected_writers import WriterLog, prepare, protected, writer_command


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "count", [20, pytest.param(250, marks=pytest.mark.torture)], ids=["20", "250"]
)
def test_no_writer_of_a_client_changes_a_protected_name(machine: Machine, count: int) -> None:
    prepare(machine.project, random.Random(count))
    before = protected(machine.project)
    log = WriterLog(machine.folder / "writers.jsonl")
    wire = machine.greeted("--approve", "auto")
    results = [
        text(
            wire.call(
                "execute_shell",
                command=writer_command(f"mcp-{number}", 10, 1, log.path),
            )
        )
        for number in range(count // 10)
    ]
    assert log.ended.count("program") == count // 10, results  # daemons end with their command
    assert wire.end() == 0
    assert protected(machine.project) == before
    events = [entry["event"] for entry in machine.log()]
    texts = [event["text"] for event in events if event["type"] == "notice"]
    assert log.unreported(texts) == []
    assert any("has been restored" in one or "has been removed" in one for one in results)
