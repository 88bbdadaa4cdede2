"""The turn of an event, at a cost that does not depend on the agent's ids."""

from __future__ import annotations

import tracemalloc

from tillerman.core.events import ToolFinished, ToolStarted
from tillerman.sessions.log.event_writer import TurnNumbers


def test_a_call_with_a_long_id_keeps_its_turn_and_the_id_is_not_stored() -> None:
    turns = TurnNumbers()
    turns.begin()
    tracemalloc.start()
    try:
        for number in range(64):
            id = f"{number}" * 100_000
            turns.of(ToolStarted(call_id=id, tool="Bash", name="sh", title="x"))
        stored, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    turns.end()
    turns.begin()
    assert turns.of(ToolFinished(call_id="7" * 100_000, outcome="completed")) == 1
    assert turns.of(ToolFinished(call_id="another", outcome="completed")) == 2
    assert stored < 1_000_000
