"""500 kills of running sessions: harness, warden and agent, at random moments."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.sessions.harness_kills import run_kills
from tillerman.supervision.client.supervision_levels import probe

KILLS = int(os.environ.get("TILLERMAN_KILLS", "500"))


@pytest.mark.torture
@pytest.mark.timeout(3600)
async def test_after_500_kills_no_process_is_left_and_no_printed_entry_is_lost(
    tmp_path: Path,
) -> None:
    levels = [level for level, why in (await probe()).items() if why is None and level != "group"]
    rounds = await run_kills(
        KILLS, seed=int.from_bytes(os.urandom(4)), folder=tmp_path, levels=levels
    )
    bad = [r for r in rounds if r.left or r.lost or not r.printed or set(r.ends.values()) - {1}]
    entries = sum(r.printed for r in rounds)
    print(f"{len(rounds)} kills at {', '.join(levels)}; {entries} entries printed")
    assert bad == []
