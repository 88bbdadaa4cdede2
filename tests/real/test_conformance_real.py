"""Every real agent CLI passes every case that it declares."""

from __future__ import annotations

import pytest

from tests.conformance.verdicts import hold
from tests.real.real_scene import RealScene
from tests.real.stages import Actor
from tests.real.standing import StandingDesk
from tillerman.testing.conformance_cases import CASES, ConformanceCase, check

AGENTS = ("claude", "codex", "gemini", "qwen", "opencode", "copilot")

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(300),  # a CLI that is started six times on a busy machine
    pytest.mark.agents(*AGENTS),
    pytest.mark.newest,
    pytest.mark.asyncio(loop_scope="module"),
]

ANEW = ("introduces_itself", "error_overflow")


@pytest.fixture
def actor(standing: StandingDesk) -> Actor:
    assert isinstance(standing.player, Actor)
    return standing.player


def _in_order() -> list[object]:
    """One conversation serves most cases: first those about its start, last those that end it, and
    failures after those that ask about earlier messages."""
    late = [name for name in CASES if name.startswith("resume") or name in ("fork", "history_lost")]
    late += [ANEW[1]]
    late += [name for name in CASES if name.startswith(("error_", "retry_")) or "failure" in name]
    late += ["repetitive_answer", "cut_stream", "closed_stream", "cancel_in_retry", "killed"]
    late += ["timeout_in_text", "timeout_in_retry", "timeout_in_tool"]
    rest = [name for name in CASES if name not in late]
    return [
        pytest.param(CASES[name], id=name, marks=[pytest.mark.anew] if name in ANEW else [])
        for name in dict.fromkeys((ANEW[0], *rest, *late))
    ]


@pytest.mark.parametrize("case", _in_order())
async def test_it_does_what_it_declares(
    standing_desk: StandingDesk, actor: Actor, case: ConformanceCase
) -> None:
    scene = RealScene(standing_desk, actor)
    hold(actor.agent, actor.version, case, await check(scene, case))
