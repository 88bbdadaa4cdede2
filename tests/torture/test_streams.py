"""100,000 damaged streams in four chunkings each, and recordings truncated at 200 places each."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from tillerman.agents import load as load_agent
from tillerman.agents.stdio.agent import StdioAgent
from tillerman.testing.conformance import check_changes, check_cuts, check_streams
from tillerman.testing.recordings import load

pytestmark = pytest.mark.torture

RECORDINGS = Path(__file__).parents[1] / "recordings"
STREAMS = 100_000
PARTS = 20


def agent(name: str) -> StdioAgent:
    found = load_agent(name)
    assert isinstance(found, StdioAgent)
    return found


@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", range(PARTS))
def test_corrupted_streams_give_the_same_events_in_any_chunks(part: int) -> None:
    name = ("claude", "mock")[part % 2]
    lines = [line for recording in load(RECORDINGS / name) for line in recording.lines]
    start = time.monotonic()
    check_streams(agent(name), lines, STREAMS // PARTS, seed=part + 1)
    print(f"{STREAMS // PARTS} streams of {name} in {time.monotonic() - start:.1f} s")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["mock", "claude/2.1.197", "claude/2.1.325"])
def test_recordings_cut_anywhere_end_each_turn_once(name: str) -> None:
    start = time.monotonic()
    recordings = load(RECORDINGS / name)
    for recording in recordings:
        asyncio.run(check_cuts(agent(name.split("/", maxsplit=1)[0]), recording, 200))
    print(f"{len(recordings)} recordings x 200 cuts in {time.monotonic() - start:.1f} s")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["mock", "claude/2.1.197", "claude/2.1.325"])
def test_every_key_of_every_line_may_be_dropped_renamed_or_wrong(name: str) -> None:
    """In every recording separately, while the short form takes each place once for all."""
    start = time.monotonic()
    for recording in load(RECORDINGS / name):
        check_changes(agent(name.split("/", maxsplit=1)[0]), recording, set())
    print(f"{name} in {time.monotonic() - start:.1f} s")
