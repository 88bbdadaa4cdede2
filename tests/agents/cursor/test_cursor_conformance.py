"""Cursor's stand-in plays every case that Cursor claims to."""

from __future__ import annotations

from pathlib import Path

import pytest
from cursor_scene import CursorScene
from verdicts import hold

from bridle.testing.cases import CASES, Case, check


@pytest.mark.parametrize("case", CASES.values(), ids=lambda case: case.name)
async def test_it_does_what_it_claims(tmp_path: Path, case: Case) -> None:
    scene = CursorScene(tmp_path)
    try:
        verdict = await check(scene, case)
    finally:
        await scene.close()
    hold("cursor", "stand-in", case, verdict)
