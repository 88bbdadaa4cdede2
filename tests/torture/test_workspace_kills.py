"""500 kills of server, warden, keepers and commands, with six styles of escape in each."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from tests.workspace.process_kills import STYLES, run_rounds
from tillerman.supervision.client.supervision_levels import probe

KILLS = int(os.environ.get("TILLERMAN_KILLS", "500"))


@pytest.mark.torture
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("lease", [0.5, 2.0])
async def test_after_500_kills_no_command_outlives_its_lease_and_none_is_lost(
    tmp_path: Path, lease: float
) -> None:
    levels = [level for level, why in (await probe()).items() if why is None and level != "group"]
    share = KILLS * 4 // 5 if lease < 1 else KILLS - KILLS * 4 // 5
    seed = int.from_bytes(os.urandom(4))
    rounds = run_rounds(share, levels, seed=seed, folder=tmp_path, linger=lease)
    victims = Counter(one.victim for one in rounds)
    print(
        f"{len(rounds)} kills x {len(STYLES)} styles at {', '.join(levels)}, seed {seed}: {victims}"
    )
    assert [one for one in rounds if one.left or one.is_outside] == []
