"""kill -9 at any moment: no process is left, no printed entry is lost, every turn ends once."""

from __future__ import annotations

from pathlib import Path

from tests.sessions.harness_kills import run_kills


async def test_killed_sessions_leave_no_process_lose_no_entry_and_end_every_turn_once(
    tmp_path: Path,
) -> None:
    for round in await run_kills(5, seed=7, folder=tmp_path):
        assert round.printed, round
        assert round.left == [], round
        assert round.lost == [], round
        assert set(round.ends.values()) <= {1}, round
