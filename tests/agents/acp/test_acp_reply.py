"""A reply that the agent requests again replaces the text streamed before."""

from __future__ import annotations

from random import Random

import pytest

from tillerman.agents.acp.model_reply import ModelReply
from tillerman.core.events import (
    Event,
    MessageChunk,
    MessageWithdrawn,
    ThoughtChunk,
    ToolFinished,
    ToolStarted,
    TurnEnded,
)


def turn(random: Random, numbers: list[int]) -> tuple[list[Event | None], list[str]]:
    """The events of a turn, None where the model is called again, and the ids that remain."""
    events: list[Event | None] = []
    stands: list[str] = []

    def attempt() -> list[str]:
        ids = []
        for _ in range(random.randint(0, 2)):
            numbers.append(len(numbers))
            id, kind = f"m{numbers[-1]}", random.choice((MessageChunk, ThoughtChunk))
            events.extend(kind(message_id=id, text="x") for _ in range(random.randint(1, 3)))
            ids.append(id)
        return ids

    for number in range(random.randint(0, 3)):
        for _ in range(random.choice((0, 0, 1, 2))):
            attempt()
            events.append(None)
        stands += attempt()
        call = f"c{len(numbers)}-{number}"
        events.append(ToolStarted(call_id=call, tool="Read", name="read", title="", input={}))
        events.append(ToolFinished(call_id=call, outcome="completed"))
    broken: list[str] = []
    for _ in range(random.choice((0, 0, 1, 2))):
        broken = attempt() or broken
        events.append(None)
    last = attempt()
    if random.random() < 0.3:
        events.append(TurnEnded(reason=random.choice(("failed", "cancelled"))))
        return events, stands + (last or _remaining(events))
    events.append(TurnEnded(reason="completed"))
    return events, stands + last


def _remaining(events: list[Event | None]) -> list[str]:
    """The whole text since the last call: nothing replaced it."""
    ids: list[str] = []
    again: list[str] = []
    for event in events:
        match event:
            case ToolStarted():
                ids, again = [], []
            case None:
                again, ids = again + ids, []
            case MessageChunk(message_id=id) | ThoughtChunk(message_id=id):
                again = []
                ids = [*dict.fromkeys((*ids, id))]
    return again + ids


@pytest.mark.parametrize("seed", range(300))
def test_the_last_value_wins(seed: int) -> None:
    random, reply = Random(seed), ModelReply()
    numbers: list[int] = []
    for _ in range(3):
        events, stands = turn(random, numbers)
        messages: list[str] = []
        for event in events:
            if event is None:
                reply.asked_again()
                continue
            for gone in reply.receive(event):
                assert isinstance(gone, MessageWithdrawn)
                messages.remove(gone.message_id)
            match event:
                case MessageChunk(message_id=id) | ThoughtChunk(message_id=id):
                    messages = [*dict.fromkeys((*messages, id))]
        assert messages == stands
