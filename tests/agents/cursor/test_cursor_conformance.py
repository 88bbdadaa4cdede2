"""Cursor's stand-in passes every case that Cursor declares, and its gate is enforced as
declared."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.agents.cursor.cursor_desk import Desk, perform
from tests.conformance.verdicts import hold, hold_gate
from tests.stand_ins.cursor_scene import SERVER, CursorScene
from tillerman.core.events import PermissionRequested
from tillerman.core.tools import class_of
from tillerman.testing.conformance_cases import CASES, ConformanceCase, check
from tillerman.testing.gate_probe.probes import NOBODY, ProbeResult, holds
from tillerman.testing.scenario import call, of


@pytest.mark.parametrize("case", CASES.values(), ids=lambda case: case.name)
async def test_it_does_what_it_declares(tmp_path: Path, case: ConformanceCase) -> None:
    scene = CursorScene(tmp_path)
    try:
        verdict = await check(scene, case)
    finally:
        await scene.close()
    hold("cursor", "stand-in", case, verdict)


LOUD = {"loud": {"command": sys.executable, "args": [str(SERVER)]}}
SHOUT = {
    "tool": "mcp",
    "args": {"serverIdentifier": "loud", "toolName": "shout", "args": {"text": "hey"}},
}
CALLS: dict[str, dict[str, Any]] = {
    "Bash": {"shell": "true"},
    "Edit": {"edit": "a", "content": "x"},
    "Delete": {"delete": "a"},
    "MCP": SHOUT,
    "Read": {"read": "a"},
    "Grep": {"tool": "grep", "args": {"pattern": "x"}},
    "Glob": {"tool": "glob", "args": {"globPattern": "*"}},
    "LS": {"tool": "ls", "args": {"path": "."}},
    "WebFetch": {"tool": "webFetch", "args": {"url": "http://127.0.0.1:9/"}},
    "WebSearch": {"tool": "webSearch", "args": {"searchTerm": "x"}},
}


async def test_the_declared_classes_are_enforced_by_the_gate(desk: Desk) -> None:
    """Every call that is requested is denied."""
    (desk.project / "a").touch()
    run_settings = replace(desk.run_settings("auto"), tools=NOBODY)
    session = await desk.sessions.start(desk.agent, desk.spec(servers=LOUD), run_settings)
    results = []
    for tool, step in CALLS.items():
        log = await perform(session, step)
        begun, done = call(log, tool)
        asked = [event.call_id for event in of(log, PermissionRequested)]
        held = asked == [begun.call_id] and done.outcome == "denied"
        kind = class_of(tool)
        assert kind
        ran = done.outcome == "completed"
        results.append(
            ProbeResult(kind, tool, ran, "" if held else f"asked about {asked}, {done.outcome}")
        )
    assert {result.name for result in results if result.problem} == {"LS", "WebFetch", "WebSearch"}
    hold_gate("cursor", "stand-in", holds(results))
