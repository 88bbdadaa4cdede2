"""Every real agent CLI plays every case that it claims to."""

from __future__ import annotations

import pytest
from desk import Desk
from real_scene import RealScene
from stages import Actor
from verdicts import hold

from bridle.testing.cases import CASES, Case, check

AGENTS = ("claude", "codex", "gemini", "qwen", "opencode", "copilot")

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(180),
    pytest.mark.agents(*AGENTS),
    pytest.mark.newest,
]


@pytest.mark.parametrize("case", CASES.values(), ids=lambda case: case.name)
async def test_it_does_what_it_claims(any_desk: Desk, actor: Actor, case: Case) -> None:
    scene = RealScene(any_desk, actor)
    hold(actor.agent, actor.version, case, await check(scene, case))
