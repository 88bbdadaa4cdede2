"""An agent that starts its own turn just when a prompt is sent."""

from __future__ import annotations

import asyncio
import json
from collections import Counter

import pytest

from tests.sessions.session_desk import Desk
from tillerman.core.agent import Prompt
from tillerman.core.errors import SessionBusy
from tillerman.core.events import MessageChunk, TurnEnded, TurnStarted
from tillerman.testing.test_host import PlainHost

WAKE = [{"background": "Tick", "after": 0.05, "steps": [{"say": "awake"}]}, {"say": "soon"}]
WAKE_AND_STAY = [{"background": "Tick", "after": 0.05, "steps": [{"say": "awake"}, {"sleep": 30}]}]


async def test_a_prompt_sent_as_the_agent_wakes_is_answered_in_its_turn(desk: Desk) -> None:
    session = await desk.start()
    for round in range(12):
        await session.prompt(json.dumps(WAKE))
        await asyncio.sleep(0.04 + round * 0.004)  # around the moment it wakes
        await session.prompt(json.dumps([{"say": f"answer {round}"}]))
        async with asyncio.timeout(10):
            await session.idle()
    log = desk.sessions.log.since(session.id, limit=10_000)
    begun = Counter(entry.turn for entry in log if isinstance(entry.event, TurnStarted))
    ended = Counter(entry.turn for entry in log if isinstance(entry.event, TurnEnded))
    assert set(begun.values()) == {1}
    assert begun == ended
    prompts = {e.turn: e.event.prompt for e in log if isinstance(e.event, TurnStarted)}
    for round in range(12):
        [turn] = [turn for turn, text in prompts.items() if f'answer {round}"' in str(text)]
        messages = [
            e.event.text for e in log if e.turn == turn and isinstance(e.event, MessageChunk)
        ]
        assert "".join(messages) in (f"answer {round}", f"awakeanswer {round}")


async def test_a_conversation_refuses_a_prompt_when_the_agent_woke_unnoticed(
    desk: Desk,
) -> None:
    async with PlainHost.open(desk.folder / "host") as host:
        conversation = await desk.agent.open(desk.spec(), host)
        received = conversation.batches()
        await conversation.prompt(Prompt(json.dumps(WAKE_AND_STAY)))
        async for batch in received:
            if any(isinstance(e, TurnStarted) for one in batch for e in one.events):
                break
        with pytest.raises(SessionBusy):
            await conversation.prompt(Prompt("too early"))
        await conversation.close()
