"""A Codex that breaks the rules: a turn ends by its own end, and once."""

from __future__ import annotations

from tests.agents.codex.codex_says import TURN, Talk, answer, tell
from tillerman.core.events import TurnEnded


def ended(turn: str) -> dict[str, object]:
    return tell("turn/completed", turn={"id": turn, "status": "completed"})


def test_a_repeated_end_of_the_last_turn_does_not_end_the_next() -> None:
    talk = Talk()
    talk.begin()
    assert talk.hear(ended(TURN)) == [TurnEnded(reason="completed")]
    assert talk.hear(ended(TURN)) == []
    talk.prompt("more")
    assert talk.hear(ended(TURN)) == []
    talk.hear(answer(talk.last("turn/start"), {"turn": {"id": "turn-2"}}))
    assert talk.hear(ended("turn-of-nobody")) == []
    talk.hear(tell("turn/started", turn={"id": "turn-2"}))
    assert talk.hear(ended(TURN)) == []
    assert talk.hear(ended("turn-2")) == [TurnEnded(reason="completed")]
