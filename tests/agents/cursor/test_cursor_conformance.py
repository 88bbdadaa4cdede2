"""Cursor's stand-in plays every case that Cursor claims to."""

from __future__ import annotations

from pathlib import Path

import pytest
from cursor_scene import CursorScene

from bridle.testing.cases import CASES, Case, check

NOT_SEEN = {"error_429", "error_overflow"}  # in no recording


@pytest.mark.parametrize("case", CASES.values(), ids=lambda case: case.name)
async def test_it_does_what_it_claims(tmp_path: Path, case: Case) -> None:
    scene = CursorScene(tmp_path)
    try:
        verdict = await check(scene, case)
    finally:
        await scene.close()
    assert verdict.outcome in ("yes", "no", "unplayed"), verdict.why
    assert (verdict.outcome == "unplayed") == (case.name in NOT_SEEN), verdict.why
