"""The embedded agent passes every case that it declares."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agents.mock.mock_scene import MockScene
from tests.conformance.verdicts import hold
from tillerman import __version__
from tillerman.testing.conformance_cases import CASES, ConformanceCase, check


@pytest.mark.timeout(90)
@pytest.mark.parametrize("case", CASES.values(), ids=lambda case: case.name)
async def test_it_does_what_it_declares(tmp_path: Path, case: ConformanceCase) -> None:
    scene = MockScene(tmp_path)
    verdict = await check(scene, case)
    await scene.close()
    hold("mock", __version__, case, verdict)
