"""Every real agent CLI plays every case that it claims to."""

from __future__ import annotations

import pytest
from desk import Desk
from real_scene import RealScene
from stages import Actor

from bridle.testing.cases import CASES, Case, check

pytestmark = [pytest.mark.real, pytest.mark.timeout(180)]


@pytest.mark.parametrize("case", CASES.values(), ids=lambda case: case.name)
async def test_it_does_what_it_claims(any_desk: Desk, actor: Actor, case: Case) -> None:
    verdict = await check(RealScene(any_desk, actor, {}), case)
    assert verdict.outcome != "fails", verdict.why
    if verdict.outcome != "yes":
        pytest.skip(f"{verdict.outcome}: {verdict.why}")
