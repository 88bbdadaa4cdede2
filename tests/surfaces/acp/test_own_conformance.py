"""What we ask of every agent, our own ACP agent does too: through our driver, with the mock."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.surfaces.acp.own_driver import OwnDriverScene
from tillerman.testing.conformance_cases import CASES, ConformanceCase, check


@pytest.mark.timeout(120)
@pytest.mark.parametrize("case", CASES.values(), ids=lambda case: case.name)
async def test_it_does_what_it_declares(tmp_path: Path, case: ConformanceCase) -> None:
    scene = OwnDriverScene(tmp_path)
    verdict = await check(scene, case)
    await scene.close()
    assert verdict.outcome in ("yes", "no", "unplayed"), verdict
