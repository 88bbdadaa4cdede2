"""Two independent scripted models play one scene: the events are equal."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from tests.real.alike import comparable, difference
from tests.real.desk import MAX_WAIT
from tests.real.second_scenes import RARE, SCENES, for_first, for_second
from tests.real.stages import Actor
from tests.real.standing import StandingDesk
from tillerman.core.errors import RequestNotOpen
from tillerman.core.events import Answer, Entry, PermissionRequested

AGENTS = ("claude", "codex", "gemini", "qwen", "opencode", "copilot")

pytestmark = [
    pytest.mark.timeout(180),
    pytest.mark.agents(*AGENTS),
    pytest.mark.newest,
    pytest.mark.asyncio(loop_scope="module"),
]

ESTIMATED = {"copilot": ("context_used",)}  # it counts its prompt, with ids and times, by itself


@pytest.mark.real
@pytest.mark.parametrize("name", [name for name in SCENES if name not in RARE])
async def test_both_models_give_the_same_events(
    standing_desk: StandingDesk, second_desk: StandingDesk, name: str
) -> None:
    await assert_same_events(standing_desk, second_desk, name)


@pytest.mark.torture
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("name", SCENES)
async def test_the_events_are_the_same_however_the_second_model_varies(
    standing_desk: StandingDesk, second_desk: StandingDesk, name: str, seed: int
) -> None:
    second_desk.double.seed = seed
    await assert_same_events(standing_desk, second_desk, name)


async def assert_same_events(
    standing_desk: StandingDesk, second_desk: StandingDesk, name: str
) -> None:
    scene, desks = SCENES[name], (standing_desk, second_desk)
    first, second = (desk.player for desk in desks)
    assert isinstance(first, Actor)
    assert isinstance(second, Actor)
    if scene.needs and first.lacks(scene.needs):
        pytest.skip(f"{first.agent} has no such tool: {scene.needs}")
    standing_desk.double.scenarios[name] = for_first(scene, first)
    second_desk.double.scenes[name] = for_second(scene, second)
    logs = await asyncio.gather(*(_played(desk, name) for desk in desks))
    by_first, by_second = (
        comparable(
            log,
            {str(desk.folder): "FOLDER", desk.double.base_url: "URL"},
            ESTIMATED.get(first.agent, ()),
        )
        for log, desk in zip(logs, desks, strict=True)
    )
    assert by_second == by_first, difference(by_first, by_second)


async def _played(desk: StandingDesk, name: str) -> list[Entry]:
    """Runs the turn; what the policy leaves to a user is denied."""
    assert isinstance(desk.player, Actor)
    session = await desk.start(options=desk.player.stage.options)
    since = session.last_seq
    await session.prompt(f"@@{name}@@ go")
    entries = []
    async with asyncio.timeout(MAX_WAIT * 2):
        async for entry in session.until_idle(since):
            entries.append(entry)
            if isinstance(entry.event, PermissionRequested):
                with contextlib.suppress(RequestNotOpen):
                    session.answer(entry.event.request_id, Answer(option="deny"))
    return entries
